/** The shapes of the HTTP API, as the server sends them. Times are Unix milliseconds; an absent cost is unknown. */

export type Usage = {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  total?: number;
  totalTokens?: number;
  reasoning?: number;
};

export type LiveState = { runs: number; state: "running" | "waiting"; model?: string; doing?: string; since: number };

export type Session = {
  key: string;
  title: string;
  titled?: boolean;
  source: "own" | "file" | "watch" | "client" | "gateway";
  group: string;
  project?: string;
  writtenAs: string;
  models: string[];
  messages: number;
  branches: number;
  size: number;
  created?: number;
  modified: number;
  cost?: number;
  unpriced?: number;
  badLines?: number;
  problems?: number;
  readOnly?: boolean;
  forkedFrom?: { key: string; entry?: string };
  spawnedBy?: { key?: string; session: string; entry?: string; callId?: string };
  shape?: number[][];
  live?: LiveState;
  rated?: number;
  notes?: number;
  deletedUntil?: number;
};

export type CallRow = {
  id: string;
  name: string;
  arg?: string;
  bad?: true;
  server?: true;
};

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
  usage?: Usage;
  cost?: number;
  calls?: CallRow[];
  call?: { id: string; name?: string; error?: true };
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
  live?: string;
  bad?: string;
};

export type Branch = {
  name: string;
  head: string;
  description?: string;
  created?: number;
  current?: true;
  live?: true;
  merged?: true;
};
export type LineProblem = { line?: number; after?: string; message: string };
export type IndexState = { state: "ready" | "indexing" | "off"; done: number; total: number };

export type Tree = {
  epoch: string;
  rows: Row[];
  next?: number;
  total: number;
  head?: string;
  branches: Branch[];
  session: Session;
  problems: LineProblem[];
};

export type Media = {
  mimeType?: string;
  src?: string;
  size?: number;
  width?: number;
  height?: number;
  url?: string;
  fileId?: string;
  missing?: true;
};
export type Citation = { title?: string; url?: string; text?: string; [more: string]: unknown };
export type TextBlock = {
  type: "text";
  text: string;
  more?: number;
  refusal?: true;
  citations?: Citation[];
  cached?: true;
};
export type ThinkingBlock = { type: "thinking"; text: string; more?: number; signed?: true; redacted?: true };
export type ToolCallBlock = {
  type: "toolCall";
  id: string;
  name: string;
  arguments: unknown;
  argumentsText?: string;
  parseError?: string;
  made?: unknown;
  more?: number;
  cached?: true;
};
export type ServerCallBlock = { type: "serverToolCall"; id: string; name: string; arguments?: unknown; more?: number };
export type ServerResultBlock = {
  type: "serverToolResult";
  toolCallId: string;
  toolName: string;
  dialect: string;
  content?: unknown;
  isError?: true;
  more?: number;
};
export type OpaqueBlock = { type: "opaque"; dialect: string; name?: string; value: unknown; more?: number };
export type BlockView =
  | TextBlock
  | ThinkingBlock
  | ({ type: "image" } & Media)
  | ({ type: "audio"; transcript?: string } & Media)
  | ({ type: "document"; title?: string; text?: string; more?: number } & Media)
  | ToolCallBlock
  | ServerCallBlock
  | ServerResultBlock
  | OpaqueBlock;

export type MessageView = {
  role: string;
  content: BlockView[];
  asText?: true;
  at?: number;
  model?: string;
  provider?: string;
  api?: string;
  responseModel?: string;
  responseId?: string;
  usage?: Usage & { cost?: { total?: number } };
  stop?: string;
  stopDetail?: string;
  error?: string;
  toolCallId?: string;
  toolName?: string;
  isError?: boolean;
  details?: unknown;
  origin?: string;
  developer?: true;
  fields?: Record<string, unknown>;
};
export type Note = { id: string; text?: string; rating?: number; by?: string; at: number };
export type EntryView = { id: string; parent?: string; version?: number; message: MessageView; notes?: Note[] };

export type Counts = { dropped: number; weakened: number };
export type LiveNode = {
  node: string;
  run: string;
  parent?: string;
  model?: string;
  provider?: string;
  role: "assistant";
  began: number;
  content: BlockView[];
  losses?: Counts;
};
export type ErrorView = { kind: string; message: string; retryAfter?: number; hadText?: boolean; provider?: string };
export type Run = {
  id: string;
  session: string;
  from?: string;
  prompt?: string;
  model: string;
  branch?: string;
  state: "starting" | "running" | "waiting" | "done" | "stopped" | "error";
  error?: ErrorView;
  began: number;
  ended?: number;
  losses: Counts;
  usage?: Usage;
  cost?: number;
  head?: string;
  queued?: number;
  tools: string[];
  waiting: Approval[];
  mine?: boolean;
};
export type Approval = {
  run: string;
  callId: string;
  tool: string;
  arguments: unknown;
  reason: string;
  pattern?: string;
};

export type Totals = {
  messages: Record<string, number>;
  tokens: { input: number; cacheRead: number; cacheWrite: number; output: number; reasoning?: number; total: number };
  cost?: number;
  unpriced: number;
  ms?: number;
  thinking?: number;
  tools: Record<string, number>;
  failedTools?: Record<string, number>;
  stopReasons?: Record<string, number>;
  models?: Record<string, Omit<Totals, "models">>;
};

export type Hit = {
  key: string;
  title: string;
  entry: string;
  block?: number;
  role: string;
  kind: string;
  tool?: string;
  model?: string;
  at?: number;
  number?: number;
  spawned?: boolean;
  snippet: { text: string; hit?: true }[];
};

export type Span = { text: string; in: "both" | "a" | "b" };
export type Side = {
  key: string;
  to: string;
  title: string;
  branch?: string;
  models: string[];
  after: number;
  totals: Totals;
  system?: string;
};
export type CompareRow = {
  kind: "equal" | "changed" | "onlyA" | "onlyB";
  a?: string;
  b?: string;
  role: string;
  same?: number;
  words?: number;
  spans?: Span[];
  calls?: {
    name: string;
    a?: number;
    b?: number;
    args: { key: string; a?: unknown; b?: unknown; same: boolean; spans?: Span[] }[];
  }[];
  other?: { what: string; a?: unknown; b?: unknown }[];
  ms?: { a?: number; b?: number };
  cost?: { a?: number; b?: number };
};
export type Comparison = {
  a: Side;
  b: Side;
  common: number;
  fork?: { a: string; b: string };
  total: number;
  rows: CompareRow[];
  next?: number;
};

export type WireLine = {
  depth: number;
  text: string;
  path: string;
  from?: string;
  entry?: string;
  block?: number;
  loss?: number[];
  cut?: number;
};
export type WireLoss = {
  n: number;
  path: string;
  what: string;
  why: string;
  severity: "dropped" | "weakened" | "record";
  entry?: string;
  block?: number;
  ghost?: number;
  keptBy?: string[];
};
export type WireView = {
  dialect: string;
  model?: string;
  stored: WireLine[];
  sent: WireLine[];
  losses: WireLoss[];
  bytes: number;
  mediaBytes: number;
  hidden: number;
  back: boolean;
  curl?: string;
  notes?: string[];
};
export type Finding = {
  n: number;
  path: string;
  severity: "error" | "warning";
  effect: "refuses" | "weakens" | "drops";
  message: string;
  remedy: string;
  entry?: string;
  block?: number;
  repaired: boolean;
};
export type DoctorView = {
  target?: string;
  findings: Finding[];
  fits?: { tokens: number; window?: number; max?: number };
  problems: LineProblem[];
};
export type CacheRow = {
  entry: string;
  model?: string;
  bytes: number;
  shared: number;
  tokens?: { read: number; written: number; fresh: number };
  markers: { entry: string; block?: number }[];
  broke?: { path: string; entry?: string; why: string; was?: string; is?: string; extraCost?: number };
};
export type ContextView = {
  model?: string;
  window?: number;
  max?: number;
  total: number;
  exact: boolean;
  segments: {
    kind: "system" | "tools" | "message" | "summary";
    entry?: string;
    role?: string;
    tokens: number;
    estimated: boolean;
  }[];
  cached?: number;
  compactions: { entry: string; firstKept?: string; before?: number; after?: number }[];
  left: number;
  answers: {
    entry: string;
    number: number;
    read: number;
    fresh: number;
    cacheRead: number;
    cacheWrite: number;
    output: number;
    cost?: number;
    broke?: string;
    extraCost?: number;
  }[];
};

export type Model = {
  name: string;
  id: string;
  provider: string;
  label?: string;
  api: string;
  window?: number;
  max?: number;
  price?: { input: number; output: number; cacheRead?: number; cacheWrite?: number };
  ready: boolean;
  why?: string;
  input: string[];
  reasoning?: boolean;
  local?: boolean;
  used?: true;
};
export type Handover = {
  reads: { messages: number; tokens: number };
  models: {
    model: string;
    api: string;
    losses: WireLoss[];
    counts: { dropped: number; weakened: number; record: number };
    fits: boolean;
    tokens: number;
    window?: number;
    cost?: number;
    refuses: Finding[];
    cached?: number;
    sameFamily?: boolean;
  }[];
  causes: {
    what: string;
    why?: string;
    label: string;
    entries: { entry: string; block?: number }[];
    by: Record<string, { severity: string; count: number }>;
  }[];
};

export type Me = {
  scope: "read" | "write";
  csrf?: string;
  version: string;
  epoch: string;
  address: string;
  capabilities: string[];
};
export type Find = {
  id: string;
  kind: string;
  text: string;
  before: string;
  after: string;
  entry?: string;
  block?: number;
  where: string;
  suggested: boolean;
};

export type CacheView = {
  dialect?: string;
  answers: { entry: string; model?: string; dialect: string; bytes: number; shared: number; tokens?: { read: number; written: number; fresh: number }; broke?: { path: string; entry?: string; why: string; was?: string; is?: string; extraCost?: number } }[];
};
export type TimelineView = { points: { id: string; at?: number; ms?: number; role: string; model?: string; input?: number; cacheRead?: number; cacheWrite?: number; output?: number; cost?: number }[] };
