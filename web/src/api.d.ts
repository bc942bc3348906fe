// Made from the server's shapes by `python -m interlingua.canvas.openapi`; do not edit.

export type AnsweredCall = {
  id: string;
  name?: string;
  error?: boolean;
};

/** A call that waits for approval. `pattern` is what `always` would allow; absent: nothing. */
export type Approval = {
  run: string;
  callId: string;
  tool: string;
  arguments: unknown;
  reason: string;
  pattern?: string;
};

export type ApprovalDecision = {
  callId: string;
  allow: boolean;
  always?: boolean;
};

export type ArgumentDifference = {
  key: string;
  a?: unknown;
  b?: unknown;
  same: boolean;
  spans?: SpanView[];
};

export type AudioView = {
  type: "audio";
  mimeType?: string;
  src?: string;
  size?: number;
  width?: number;
  height?: number;
  url?: string;
  fileId?: string;
  missing?: boolean;
  transcript?: string;
};

/** `KEY/ENTRY`: where the data is. */
export type BlobQuery = {
  in: string;
};

export type BranchList = {
  branches: BranchView[];
};

/** A named head. `merged`: its head is a parent of a merge. */
export type BranchView = {
  name: string;
  head?: string;
  description?: string;
  created?: number;
  current?: boolean;
  live?: boolean;
  merged?: boolean;
};

/** The first difference between a request and the previous one: nothing after it can be reused. */
export type Broken = {
  path: string;
  entry?: string;
  why: string;
  was?: string;
  is?: string;
  extraCost?: number;
};

export type CacheQuery = {
  to?: string;
  as?: string;
  last?: number;
};

export type CacheRow = {
  entry: string;
  model?: string;
  dialect: string;
  bytes: number;
  shared: number;
  tokens?: CacheTokens;
  markers?: Marker[];
  broke?: Broken;
};

export type CacheTokens = {
  read: number;
  written: number;
  fresh: number;
};

/** `partial`: the requests were compared from the `last` messages of the path on, and sizes are of these. */
export type CacheView = {
  dialect?: string;
  answers: CacheRow[];
  partial?: boolean;
};

export type CallDifference = {
  name: string;
  a?: number;
  b?: number;
  args: ArgumentDifference[];
};

/** A call in its response's row. Results are separate rows; which belongs to which depends on the branch. */
export type CallRow = {
  id: string;
  name: string;
  arg?: string;
  bad?: boolean;
  server?: boolean;
};

/** A canvas in the `llm-canvas` format, with its branches beside the nodes. */
export type CanvasBody = {
  data: Record<string, unknown>;
};

export type CanvasList = {
  canvases: (Record<string, unknown>)[];
};

/** The same loss for several models, as one row. */
export type Cause = {
  what: string;
  why?: string;
  label: string;
  entries: Spot[];
  by: Record<string, CauseCount>;
};

export type CauseCount = {
  severity: "dropped" | "record" | "weakened";
  count: number;
};

export type Checkout = {
  branch?: string;
  entry?: string;
};

/** A source that a text block refers to. `start` and `end` are offsets into the citing text. */
export type Citation = {
  title?: string;
  url?: string;
  citedText?: string;
  start?: number;
  end?: number;
  extra?: Record<string, unknown>;
};

export type CommitBatch = {
  operations: Operation[];
};

/** `head` is the head of a branch that had moved elsewhere: the node is kept, the branch is not moved. */
export type CommitOutcome = {
  ok?: boolean;
  head?: string;
  stale?: boolean;
  error?: Record<string, unknown>;
};

export type CompactionMark = {
  entry: string;
  firstKept?: string;
  before?: number;
  after?: number;
};

export type CompareQuery = {
  a: string;
  b: string;
  aTo?: string;
  bTo?: string;
  offset?: number;
  limit?: number;
};

export type CompareRow = {
  kind: "changed" | "equal" | "onlyA" | "onlyB";
  a?: string;
  b?: string;
  role: string;
  same?: number;
  words?: number;
  spans?: SpanView[];
  calls?: CallDifference[];
  other?: OtherDifference[];
  ms?: Pair;
  cost?: Pair;
};

export type Comparison = {
  a: Side;
  b: Side;
  common: number;
  fork?: ForkPoint;
  total: number;
  rows: CompareRow[];
  next?: number;
};

export type ContextQuery = {
  to?: string;
  model?: string;
  last?: number;
};

/** What a model reads at an entry. `exact`: the total is the provider's count; `left` messages are not read. `partial`: only the `last` messages that were asked for were read; unless exact, the total is theirs. */
export type ContextView = {
  model?: string;
  window?: number;
  max?: number;
  total: number;
  exact: boolean;
  segments: Segment[];
  cached?: number;
  compactions?: CompactionMark[];
  left?: number;
  answers?: Reading[];
  partial?: boolean;
};

/** Cost in dollars. The parts are absent if only the total is known. */
export type Cost = {
  input?: number;
  output?: number;
  cacheRead?: number;
  cacheWrite?: number;
  total: number;
  extra?: Record<string, unknown>;
};

export type DeletedList = {
  sessions: DeletedView[];
};

/** The result of a deletion. `at` and `undo_until` are absent for an opened file, which is only closed. */
export type DeletedSession = {
  key: string;
  at?: number;
  undoUntil?: number;
};

/** A session that was deleted `at` a time and can be restored until it is purged. A name can be deleted more than once: `key` and `at` together identify it. */
export type DeletedView = {
  key: string;
  at: number;
  undoUntil: number;
  title: string;
  source: "client" | "file" | "gateway" | "own" | "watch";
  group: string;
  messages?: number;
  size?: number;
};

export type DialectView = {
  id: string;
  label: string;
  canWrite?: boolean;
};

export type Dialects = {
  wires: DialectView[];
  files: DialectView[];
};

export type DoctorQuery = {
  to?: string;
  model?: string;
};

export type DoctorView = {
  target?: string;
  findings: FindingView[];
  fits?: Fit;
  problems?: LineProblem[];
};

export type DocumentView = {
  type: "document";
  mimeType?: string;
  src?: string;
  size?: number;
  width?: number;
  height?: number;
  url?: string;
  fileId?: string;
  missing?: boolean;
  title?: string;
  text?: string;
  more?: number;
};

export type EntriesQuery = {
  ids?: string;
  to?: string;
  last?: number;
  before?: string;
};

export type EntryPage = {
  entries: EntryView[];
  more?: boolean;
};

export type EntryView = {
  id: string;
  parent?: string;
  version?: number;
  message: MessageView;
  notes?: NoteView[];
};

export type ErrorBody = {
  detail: ErrorDetail;
};

/** `error` is a code for programs, `message` a sentence for people, `path` where it applies, `remedy` what to do. */
export type ErrorDetail = {
  error: string;
  message: string;
  path?: string;
  remedy?: string;
};

/** Why a run ended. `kind` is the name of the error's class. */
export type ErrorView = {
  kind: string;
  message: string;
  retryAfter?: number;
  provider?: string;
};

export type EventsQuery = {
  since?: string;
};

export type ExportLosses = {
  losses: LossView[];
};

/** `redact` names matches of a scan with the same choice; `replace` replaces them. */
export type ExportRequest = {
  format: string;
  to?: string;
  all?: boolean;
  patterns?: string[];
  thinking?: boolean;
  media?: boolean;
  redact?: string[];
  replace?: string;
};

export type Fed = {
  events: number;
};

/** An agent event, and the current entry of its session then. */
export type FeedEvent = {
  event: Record<string, unknown>;
  at?: string;
};

/** The events of an agent since the last report; none means that it is still working. */
export type FeedRequest = {
  run: string;
  model?: string;
  events?: FeedEvent[];
};

export type FileProblemView = {
  name: string;
  line?: number;
  message: string;
};

export type FilesQuery = {
  name?: string;
  dialect?: string;
};

/** The values that a search can filter by. */
export type FilterValues = {
  roles: string[];
  tools: string[];
  models: string[];
};

/** `q` has terms, "phrases" and -terms to exclude; `in` names one session. */
export type FindQuery = {
  q?: string;
  in?: string;
  role?: string;
  tool?: string;
  model?: string;
  error?: boolean;
  minCost?: number;
  source?: string;
  from?: number;
  until?: number;
  limit?: number;
  cursor?: string;
};

/** A match that looks private. `suggested`: it is almost certainly private. */
export type FindView = {
  id: string;
  kind: string;
  text: string;
  before: string;
  after: string;
  entry?: string;
  block?: number;
  where: string;
  suggested?: boolean;
};

/** `repaired`: sending repairs it on a copy; the stored value is unchanged. */
export type FindingView = {
  n: number;
  path: string;
  severity: "error" | "warning";
  effect: "drops" | "refuses" | "weakens";
  message: string;
  remedy: string;
  entry?: string;
  block?: number;
  repaired?: boolean;
};

export type Fit = {
  tokens: number;
  window?: number;
  max?: number;
};

export type ForkPoint = {
  a: string;
  b: string;
};

export type ForkRequest = {
  at?: string;
  title?: string;
};

export type ForkedFrom = {
  key: string;
  entry?: string;
};

export type Group = {
  source: "client" | "file" | "gateway" | "own" | "watch";
  group: string;
  count: number;
};

export type Handover = {
  reads: Reads;
  models: HandoverModel[];
  causes: Cause[];
};

/** What one model would not read. `refuses` is what sending cannot repair; `cost` estimates the input. */
export type HandoverModel = {
  model: string;
  api: string;
  losses: LossView[];
  counts: LossCounts;
  fits: boolean;
  tokens: number;
  window?: number;
  cost?: number;
  refuses?: FindingView[];
  cached?: number;
  sameFamily?: boolean;
};

export type HandoverRequest = {
  to?: string;
  models: string[];
  text?: string;
  replaces?: string;
  thinking?: "drop" | "text";
  tools?: string[];
};

export type HeadView = {
  head?: string;
};

/** A search hit. `number` counts messages from the root. */
export type Hit = {
  key: string;
  title: string;
  entry: string;
  block?: number;
  role: string;
  kind: "arguments" | "document" | "note" | "other" | "result" | "summary" | "system" | "text" | "thinking" | "title";
  tool?: string;
  model?: string;
  at?: number;
  number?: number;
  spawned?: boolean;
  snippet: SnippetPart[];
};

export type ImageView = {
  type: "image";
  mimeType?: string;
  src?: string;
  size?: number;
  width?: number;
  height?: number;
  url?: string;
  fileId?: string;
  missing?: boolean;
};

/** How far the search index has followed the sessions. */
export type IndexState = {
  state: "indexing" | "off" | "ready";
  done: number;
  total: number;
};

/** A part of the user's input: text, or uploaded media. */
export type InputBlock = {
  type: "audio" | "document" | "image" | "text";
  text?: string;
  upload?: string;
  mimeType?: string;
  title?: string;
};

/** A line of indented JSON. `source` is the stored path of a sent value; `cut` counts the omitted characters. */
export type JsonLine = {
  depth: number;
  text: string;
  path: string;
  from?: string;
  entry?: string;
  block?: number;
  loss?: number[];
  cut?: number;
};

export type Label = {
  label?: string;
};

export type LineProblem = {
  line?: number;
  after?: string;
  message: string;
};

export type Link = {
  address: string;
};

/** A response in progress. */
export type LiveNode = {
  node: string;
  run: string;
  parent?: string;
  model?: string;
  provider?: string;
  role?: string;
  began: number;
  content?: (TextView | ThinkingView | ImageView | AudioView | DocumentView | ToolCallView | ServerToolCallView | ServerToolResultView | OpaqueView)[];
  losses?: LossCounts;
};

/** What runs in a session now. */
export type LiveState = {
  runs: number;
  state: "running" | "waiting";
  model?: string;
  doing?: string;
  since: number;
};

/** A one-time token, or a key. */
export type Login = {
  token?: string;
  key?: string;
};

export type LossCounts = {
  dropped?: number;
  weakened?: number;
  record?: number;
};

/** `ghost` is the index of the sent line before which something is missing; `kept_by` dialects that keep it. `times` counts the losses of this kind in messages that are not shown; the path is that of the first. */
export type LossView = {
  n: number;
  path: string;
  what: string;
  why: string;
  severity: "dropped" | "record" | "weakened";
  entry?: string;
  block?: number;
  ghost?: number;
  keptBy?: string[];
  times?: number;
};

export type Marker = {
  entry?: string;
  block?: number;
};

/** The current visitor, and the server's capabilities. */
export type Me = {
  scope: "read" | "write";
  csrf?: string;
  version: string;
  epoch: string;
  address: string;
  capabilities: string[];
  limits: Record<string, number>;
  toolViews?: Record<string, ToolDisplayView>;
};

/** `from` names branches or entries. A squash needs no message. */
export type MergeRequest = {
  into: string;
  from: string[];
  message?: Record<string, unknown>;
  strategy?: "explicit" | "linear" | "squash";
};

/** A message for the page: media by URL, long texts truncated, with the number of omitted characters. */
export type MessageView = {
  role: string;
  content: (TextView | ThinkingView | ImageView | AudioView | DocumentView | ToolCallView | ServerToolCallView | ServerToolResultView | OpaqueView)[];
  asText?: boolean;
  at?: number;
  model?: string;
  provider?: string;
  api?: string;
  responseModel?: string;
  responseId?: string;
  usage?: Usage;
  stop?: string;
  stopDetail?: string;
  error?: string;
  toolCallId?: string;
  toolName?: string;
  isError?: boolean;
  details?: unknown;
  detailsMore?: number;
  origin?: string;
  developer?: boolean;
  fields?: Record<string, unknown>;
};

export type ModelList = {
  models: ModelView[];
  providers: ProviderView[];
  total: number;
};

/** `cost` is the sum of known costs; `unpriced` counts the responses without one. */
export type ModelTotals = {
  messages: Record<string, number>;
  tokens: Tokens;
  cost?: number;
  unpriced?: number;
  ms?: number;
  thinking?: number;
  tools: Record<string, number>;
  failedTools: Record<string, number>;
  stopReasons: Record<string, number>;
};

/** A model to choose. `ready`: a key was found, or none is needed. */
export type ModelView = {
  name: string;
  id: string;
  provider: string;
  label?: string;
  api: string;
  window?: number;
  max?: number;
  price?: Price;
  ready: boolean;
  why?: string;
  input?: string[];
  reasoning?: boolean;
  local?: boolean;
  used?: boolean;
};

export type ModelsQuery = {
  q?: string;
  limit?: number;
  ready?: boolean;
  session?: string;
};

/** `expect` is the expected head of the branch. */
export type NewEntry = {
  message: Record<string, unknown>;
  parent?: string | null;
  id?: string;
  branch?: string;
  expect?: string | null;
};

export type NewNote = {
  text?: string;
  rating?: -1 | 0 | 1;
};

export type NewSession = {
  title?: string;
  system?: string;
};

export type NoteView = {
  id: string;
  text?: string;
  rating?: number;
  by?: string;
  at: number;
};

/** An empty object. */
export type Nothing = Record<string, unknown>;

export type OpaqueView = {
  type: "opaque";
  dialect: string;
  name?: string;
  value?: unknown;
  more?: number;
};

export type OpenedFiles = {
  sessions: SessionView[];
  problems: FileProblemView[];
};

/** One change. Changes are idempotent and may be sent again. `create` creates a canvas; `commit` adds a node (`node` in the `llm-canvas` format, or `message` in our own) and moves `branch` to it; `update` replaces its message; `branch` creates, moves or deletes a branch. */
export type Operation = {
  op: "branch" | "commit" | "create" | "update";
  canvas: string;
  id?: string;
  node?: Record<string, unknown>;
  message?: Record<string, unknown>;
  parent?: string;
  parents?: string[];
  branch?: string;
  expect?: string | null;
  head?: string;
  title?: string;
  description?: string;
  deleted?: boolean;
};

export type OtherDifference = {
  what: string;
  a?: unknown;
  b?: unknown;
};

export type Outcomes = {
  outcomes: CommitOutcome[];
};

export type Pair = {
  a?: number;
  b?: number;
};

export type Point = {
  id: string;
  role: string;
  at?: number;
  ms?: number;
  model?: string;
  input?: number;
  cacheRead?: number;
  cacheWrite?: number;
  output?: number;
  cost?: number;
};

/** Dollars per million tokens. */
export type Price = {
  input: number;
  output: number;
  cacheRead?: number;
  cacheWrite?: number;
};

export type ProviderView = {
  id: string;
  label: string;
  ready: boolean;
  why?: string;
};

/** `at`: when it was deleted. */
export type PurgeQuery = {
  at: number;
};

export type RawQuery = {
  offset?: number;
  limit?: number;
};

/** What one response read, in tokens. */
export type Reading = {
  entry: string;
  number: number;
  read?: number;
  fresh?: number;
  cacheRead?: number;
  cacheWrite?: number;
  output?: number;
  cost?: number;
  broke?: string;
  extraCost?: number;
};

export type Reads = {
  messages: number;
  tokens: number;
};

/** `at`: when it was deleted; else the latest of this key. */
export type RestoreRequest = {
  at?: number;
};

/** Another message, or only another text; `version` is the one that was read. */
export type Revision = {
  version: number;
  message?: Record<string, unknown>;
  text?: string;
};

/** An entry of the tree, small enough to send all of them. `seq` increases in log order. */
export type Row = {
  seq: number;
  id: string;
  parent?: string;
  parents?: string[];
  role: string;
  text: string;
  chars?: number;
  at?: number;
  ms?: number;
  model?: string;
  provider?: string;
  stop?: string;
  stopDetail?: string;
  usage?: RowUsage;
  cost?: number;
  calls?: CallRow[];
  call?: AnsweredCall;
  thinking?: number;
  images?: number;
  files?: number;
  audio?: number;
  opaque?: number;
  error?: string;
  origin?: string;
  version?: number;
  label?: string;
  rating?: number;
  notes?: number;
  session?: string;
  spawned?: string[];
  caller?: string;
  live?: string;
  bad?: string;
};

export type RowUsage = {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  total: number;
  reasoning?: number;
};

export type RunList = {
  runs: RunView[];
};

export type RunOptions = {
  maxTokens?: number;
  temperature?: number;
  reasoning?: string | number | boolean;
};

/** Continue from an entry (default: the head; null begins a new root), with or without a message, on models. `replaces` makes the message a new sibling of that entry. `key` makes the request idempotent. */
export type RunRequest = {
  from?: string | null;
  text?: string;
  content?: InputBlock[];
  replaces?: string;
  models: string[];
  thinking?: "drop" | "text";
  options?: RunOptions;
  tools?: string[];
  branch?: string;
  key?: string;
};

/** A response in progress, or an ended one. `mine` is false for a remote agent that only reports here. */
export type RunView = {
  id: string;
  session: string;
  from?: string;
  prompt?: string;
  model: string;
  branch?: string;
  state: "done" | "error" | "running" | "starting" | "stopped" | "waiting";
  error?: ErrorView;
  began: number;
  ended?: number;
  losses: LossCounts;
  usage?: RowUsage;
  cost?: number;
  head?: string;
  queued?: number;
  tools?: string[];
  waiting?: Approval[];
  mine?: boolean;
};

export type RunsQuery = {
  session?: string;
};

/** The matches, and the size of the file in bytes. */
export type Scan = {
  finds: FindView[];
  bytes: number;
};

/** The path to an entry, or all branches. `patterns` holds further texts to search for. */
export type ScanRequest = {
  format: string;
  to?: string;
  all?: boolean;
  patterns?: string[];
  thinking?: boolean;
  media?: boolean;
};

export type SearchResult = {
  hits: Hit[];
  total: number;
  sessions: number;
  ms: number;
  next?: string;
  index: IndexState;
};

/** A part of what a model reads: usually one message; far from the end, several neighbours. */
export type Segment = {
  kind: "message" | "summary" | "system" | "tools";
  entry?: string;
  role?: string;
  tokens: number;
  estimated: boolean;
  messages?: number;
};

export type ServerToolCallView = {
  type: "serverToolCall";
  id: string;
  name: string;
  arguments?: unknown;
  more?: number;
};

export type ServerToolResultView = {
  type: "serverToolResult";
  toolCallId: string;
  toolName: string;
  dialect: string;
  content?: unknown;
  isError?: boolean;
  more?: number;
};

export type SessionList = {
  sessions: SessionView[];
  total: number;
  next?: string;
  groups: Group[];
  size: number;
  index: IndexState;
};

/** A session in the list. `shape` is a sketch of its tree: lanes of roles, 8 added for failures. */
export type SessionView = {
  key: string;
  title: string;
  titled?: boolean;
  source: "client" | "file" | "gateway" | "own" | "watch";
  group: string;
  project?: string;
  writtenAs: string;
  models?: string[];
  messages?: number;
  branches?: number;
  size?: number;
  created?: number;
  modified?: number;
  cost?: number;
  unpriced?: number;
  badLines?: number;
  problems?: number;
  readOnly?: boolean;
  forkedFrom?: ForkedFrom;
  spawnedBy?: SpawnedByView;
  shape?: number[][];
  live?: LiveState;
  rated?: number;
  notes?: number;
};

export type SessionsQuery = {
  source?: string;
  group?: string;
  q?: string;
  sort?: "cost" | "messages" | "modified" | "title";
  filter?: "bad" | "live" | "notes" | "rated";
  limit?: number;
  cursor?: string;
};

export type SetBranch = {
  head?: string;
  expect?: string | null;
  description?: string;
  current?: boolean;
};

export type Side = {
  key: string;
  to?: string;
  title: string;
  branch?: string;
  models: string[];
  after: number;
  totals: TotalsView;
  system?: string;
};

export type SnippetPart = {
  text: string;
  hit?: boolean;
};

export type SourceList = {
  sources: SourceView[];
};

export type SourceView = {
  id: string;
  kind: "file" | "gateway" | "home" | "watch";
  label: string;
  where: string;
  sessions: number;
  readOnly?: boolean;
  watching?: boolean;
  error?: string;
};

/** A span of text, on both sides or on one. */
export type SpanView = {
  text: string;
  in: "a" | "b" | "both";
};

/** The call that started a sub-agent's session. */
export type SpawnedByView = {
  session: string;
  key?: string;
  entry?: string;
  callId?: string;
};

export type Spot = {
  entry?: string;
  block?: number;
};

/** `linked`: the session could not be written, and continues in a linked fork. */
export type StartedRuns = {
  session: SessionView;
  linked?: boolean;
  prompt?: string;
  runs: RunView[];
};

export type Steering = {
  text: string;
};

/** A part of a long text. `line` is the line in the file that it is stored in, from one. */
export type TextPart = {
  text: string;
  offset: number;
  total: number;
  line?: number;
};

export type TextQuery = {
  block?: number;
  offset?: number;
  limit?: number;
};

export type TextView = {
  type: "text";
  text: string;
  more?: number;
  refusal?: boolean;
  citations?: Citation[];
  cached?: boolean;
};

export type ThinkingView = {
  type: "thinking";
  text: string;
  more?: number;
  signed?: boolean;
  redacted?: boolean;
};

export type Timeline = {
  points: Point[];
};

export type Title = {
  title: string;
};

export type ToQuery = {
  to?: string;
};

export type Tokens = {
  input?: number;
  cacheRead?: number;
  cacheWrite?: number;
  output?: number;
  reasoning?: number;
  total?: number;
};

/** `made` is what could be parsed of arguments that are not a JSON object; such a call is never run. */
export type ToolCallView = {
  type: "toolCall";
  id: string;
  name: string;
  arguments?: unknown;
  argumentsText?: string;
  parseError?: string;
  made?: unknown;
  more?: number;
  cached?: boolean;
};

/** How a plugin wants the calls of its tool drawn. */
export type ToolDisplayView = {
  icon?: string;
  label?: string;
  result?: "diff" | "json" | "markdown" | "text";
};

export type ToolList = {
  tools: ToolView[];
  profiles: string[];
};

export type ToolView = {
  name: string;
  label: string;
  section: string;
  asks: boolean;
};

export type TotalsView = {
  messages: Record<string, number>;
  tokens: Tokens;
  cost?: number;
  unpriced?: number;
  ms?: number;
  thinking?: number;
  tools: Record<string, number>;
  failedTools: Record<string, number>;
  stopReasons: Record<string, number>;
  models: Record<string, ModelTotals>;
};

/** A page of rows. With the first ones come the problems of the file and the stored view state. */
export type TreePage = {
  epoch: string;
  rows: Row[];
  next?: number;
  total: number;
  head?: string;
  branches: BranchView[];
  session: SessionView;
  problems?: LineProblem[];
  view?: Record<string, unknown>;
};

/** Rows `since` a number, or the `last` ones, or the last ones of the `path` `to` an entry (else to the head). */
export type TreeQuery = {
  since?: number;
  limit?: number;
  last?: number;
  path?: number;
  to?: string;
};

export type UploadQuery = {
  type?: string;
};

export type Uploaded = {
  sha256: string;
  mimeType: string;
  size: number;
};

/** Tokens in disjoint buckets: `input` excludes cache reads and writes. `total_tokens` is all input plus output; `reasoning` is the part of `output` spent on thinking, where reported. An absent `cost` means unknown, never zero. */
export type Usage = {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  totalTokens: number;
  cost?: Cost;
  reasoning?: number;
  extra?: Record<string, unknown>;
};

export type Version = {
  version: number;
  at?: number;
  message: MessageView;
};

export type Versions = {
  versions: Version[];
};

export type WireQuery = {
  to?: string;
  as?: string;
  model?: string;
  thinking?: "drop" | "text";
  part?: "answer" | "request" | "stream";
  kept?: boolean;
  last?: number;
};

/** `back`: the dialect is the conversation's own, and the sent body round-trips exactly. `partial`: only the `last` messages that were asked for were encoded; sizes, losses and paths are theirs. */
export type WireView = {
  dialect: string;
  model?: string;
  stored: JsonLine[];
  sent: JsonLine[];
  losses: LossView[];
  bytes: number;
  mediaBytes: number;
  hidden: number;
  back?: boolean;
  curl?: string;
  notes?: string[];
  partial?: boolean;
};
