/**
 * The server leaves out what has its default (empty lists, zeros, `true` where that is usual). Here, and nowhere else,
 * it is put back, so that every other file can rely on the types.
 */

import { firstWords, oneLine } from "./plain";
import type {
  Branch,
  Comparison,
  ContextView,
  Counts,
  Deleted,
  DoctorView,
  Handover,
  Hit,
  LiveNode,
  Model,
  Row,
  Run,
  Session,
  Side,
  Totals,
  Tree,
  Usage,
  WireView,
} from "./types";

type Sent<T> = Partial<T>;

export function session(sent: Sent<Session>): Session {
  return { messages: 0, branches: 0, size: 0, modified: 0, ...sent, title: oneLine(sent.title ?? ""), models: (sent.models ?? []).map(oneLine), group: oneLine(sent.group ?? ""), project: line(sent.project) } as Session;
}

const deleted = (sent: Sent<Deleted>): Deleted => ({ messages: 0, size: 0, ...sent, title: oneLine(sent.title ?? ""), group: oneLine(sent.group ?? "") }) as Deleted;

const counts = (sent?: Sent<Counts>): Counts => ({ dropped: 0, weakened: 0, ...sent });

/** Branches without a head are empty: there is nothing to draw of them yet. */
const branches = (sent: Sent<Branch>[] = []): Branch[] => sent.filter((one): one is Branch => one.head !== undefined);

const line = <T extends string | undefined>(text: T): T => (text === undefined ? text : (oneLine(text) as T));

/** Rows are for cards and lists, where one line stands for the message. */
const row = (sent: Row): Row => ({
  ...sent,
  text: sent.role === "toolResult" ? oneLine(sent.text) : firstWords(sent.text),
  role: line(sent.role),
  model: line(sent.model),
  label: line(sent.label),
  error: line(sent.error),
  bad: line(sent.bad),
  stop: line(sent.stop),
  call: sent.call && { ...sent.call, name: line(sent.call.name) },
  calls: sent.calls?.map((call) => ({ ...call, name: line(call.name), arg: line(call.arg) })),
  usage: usage(sent.usage),
});

export function tree(sent: Sent<Tree>): Tree {
  return { total: 0, problems: [], ...sent, rows: (sent.rows ?? []).map(row), branches: branches(sent.branches), session: session(sent.session ?? {}) } as Tree;
}

export function liveNode(sent: Sent<LiveNode>): LiveNode {
  return { role: "assistant", content: [], ...sent, losses: counts(sent.losses) } as LiveNode;
}

export function run(sent: Sent<Run>): Run {
  return { tools: [], waiting: [], mine: true, ...sent, losses: counts(sent.losses) } as Run;
}

function usage(sent?: Sent<Usage>): Usage | undefined {
  return sent === undefined ? undefined : { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0, ...sent };
}

export function totals(sent: Sent<Totals> = {}): Totals {
  const tokens = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0, total: 0, ...sent.tokens };
  return { messages: {}, unpriced: 0, tools: {}, failedTools: {}, stopReasons: {}, thinking: 0, ...sent, tokens } as Totals;
}

const side = (sent: Sent<Side>): Side => ({ models: [], after: 0, ...sent, totals: totals(sent.totals) }) as Side;

function comparison(sent: Sent<Comparison>): Comparison {
  return { common: 0, total: 0, rows: [], ...sent, a: side(sent.a ?? {}), b: side(sent.b ?? {}) } as Comparison;
}

function wire(sent: Sent<WireView>): WireView {
  return { stored: [], sent: [], losses: [], bytes: 0, mediaBytes: 0, hidden: 0, back: false, ...sent } as WireView;
}

function doctor(sent: Sent<DoctorView>): DoctorView {
  return { findings: [], problems: [], ...sent };
}

function context(sent: Sent<ContextView>): ContextView {
  const answers = (sent.answers ?? []).map((one) => ({ ...one, read: one.read ?? 0, fresh: one.fresh ?? 0, cacheRead: one.cacheRead ?? 0, cacheWrite: one.cacheWrite ?? 0, output: one.output ?? 0 }));
  return { total: 0, exact: false, segments: [], compactions: [], left: 0, ...sent, answers } as ContextView;
}

function handover(sent: Sent<Handover>): Handover {
  const models = (sent.models ?? []).map((one) => ({ ...one, losses: one.losses ?? [], refuses: one.refuses ?? [], counts: { ...counts(one.counts), record: one.counts?.record ?? 0 } }));
  return { reads: { messages: 0, tokens: 0 }, causes: [], ...sent, models };
}

const hit = (sent: Sent<Hit>): Hit => ({ ...sent, title: line(sent.title), model: line(sent.model), tool: line(sent.tool), snippet: (sent.snippet ?? []).map((part) => ({ ...part, text: oneLine(part.text) })) }) as Hit;

type Listed = { sessions?: Sent<Session>[] };
const listed = (sent: Listed) => ({ problems: [], groups: [], total: 0, size: 0, ...sent, sessions: (sent.sessions ?? []).map(session) });

type Dialects = { wires?: object[]; files?: { canWrite?: boolean }[] };
const dialects = (sent: Dialects) => ({ wires: sent.wires ?? [], files: (sent.files ?? []).map((one) => ({ ...one, canWrite: one.canWrite ?? true })) });

const models = (sent: { models?: Sent<Model>[] }) => ({ providers: [], ...sent, models: (sent.models ?? []).map((one) => ({ ...one, input: one.input ?? [] })) });

const started = (sent: { session?: Sent<Session>; runs?: Sent<Run>[] }) => ({ ...sent, session: session(sent.session ?? {}), runs: (sent.runs ?? []).map(run) });

/** Answers by the end of their route; what is not named here has no defaults that a view reads. */
const ANSWERS: [RegExp, (sent: never) => unknown][] = [
  [/^\/api\/sessions$|^\/api\/files$/, listed],
  [/^\/api\/sessions\/[^/]+$|\/restore$|\/fork$/, session],
  [/\/tree$/, tree],
  [/\/entries$/, (sent: { entries?: unknown[] }) => ({ ...sent, entries: sent.entries ?? [] })],
  [/\/stats$/, totals],
  [/^\/api\/compare$/, comparison],
  [/\/wire$/, wire],
  [/\/doctor$/, doctor],
  [/\/context$/, context],
  [/\/handover$/, handover],
  [/^\/api\/dialects$/, dialects],
  [/^\/api\/models$/, models],
  [/^\/api\/search$/, (sent: { hits?: Sent<Hit>[] }) => ({ total: 0, sessions: 0, ms: 0, ...sent, hits: (sent.hits ?? []).map(hit) })],
  [/\/export\/scan$/, (sent: object) => ({ finds: [], bytes: 0, ...sent })],
  [/^\/api\/deleted$/, (sent: { sessions?: Sent<Deleted>[] }) => ({ sessions: (sent.sessions ?? []).map(deleted) })],
  [/^\/api\/tools$/, (sent: object) => ({ tools: [], profiles: [], ...sent })],
  [/^\/api\/sessions\/[^/]+\/runs$/, started],
];

export function answered(path: string, sent: unknown): unknown {
  const route = path.replace(/\?.*/, "");
  const found = ANSWERS.find(([pattern]) => pattern.test(route));
  return found === undefined || typeof sent !== "object" || sent === null ? sent : found[1](sent as never);
}

type Snapshot = { live?: Sent<LiveNode>[]; runs?: Sent<Run>[]; session?: Sent<Session>; branches?: Sent<Branch>[] };

/** Events of a session's stream, by name. */
const EVENTS: Record<string, (sent: never) => unknown> = {
  snapshot: (sent: Snapshot) => ({ ...sent, live: (sent.live ?? []).map(liveNode), runs: (sent.runs ?? []).map(run), session: session(sent.session ?? {}), branches: branches(sent.branches) }),
  rows: (sent: { rows?: Row[] }) => ({ ...sent, rows: (sent.rows ?? []).map(row) }),
  head: (sent: { branches?: Sent<Branch>[] }) => ({ ...sent, branches: branches(sent.branches) }),
  session,
  run,
  live: liveNode,
  delta: (sent: object) => ({ parts: [], ...sent }),
};

export function happened(event: string, sent: unknown): unknown {
  const fill = EVENTS[event];
  return fill === undefined || typeof sent !== "object" || sent === null ? sent : fill(sent as never);
}
