/**
 * The server's shapes, which are generated (`api.d.ts`), with what `filled.ts` puts back where the server leaves out
 * a default. Times are Unix milliseconds; an absent cost is unknown.
 */

import type * as api from "./api.d.ts";

/** A shape in which some fields are always there. */
type With<T, K extends keyof T> = Omit<T, K> & Required<Pick<T, K>>;

export type { Approval, CallRow, Citation, CompareRow, ErrorView, FindView as Find, FindingView as Finding, Hit, IndexState, JsonLine as WireLine, LineProblem, LiveState, LossView as WireLoss, Me, NoteView as Note, SpanView as Span, ToolView as Tool } from "./api.d.ts";

export type Usage = With<api.RowUsage, "input" | "output" | "cacheRead" | "cacheWrite">;
export type Session = With<api.SessionView, "models" | "messages" | "branches" | "size" | "modified">;
export type Deleted = With<api.DeletedView, "messages" | "size">;
export type Row = Omit<api.Row, "usage"> & { usage?: Usage };
export type Branch = With<api.BranchView, "head">;
export type Tree = Omit<With<api.TreePage, "problems">, "rows" | "branches" | "session"> & { rows: Row[]; branches: Branch[]; session: Session };

export type BlockView = api.MessageView["content"][number];
export type ToolCallBlock = api.ToolCallView;
export type Media = Omit<api.ImageView, "type">;
export type EntryView = api.EntryView;

export type Counts = Required<Pick<api.LossCounts, "dropped" | "weakened">>;
export type LiveNode = Omit<With<api.LiveNode, "content" | "role">, "losses"> & { losses: Counts };
export type Run = Omit<With<api.RunView, "tools" | "waiting" | "mine">, "losses"> & { losses: Counts };

export type Totals = Omit<With<api.TotalsView, "messages" | "unpriced" | "tools">, "tokens"> & { tokens: Required<Omit<api.Tokens, "reasoning">> & Pick<api.Tokens, "reasoning"> };
export type Side = Omit<With<api.Side, "models" | "after">, "totals"> & { totals: Totals };
export type Comparison = Omit<With<api.Comparison, "common" | "total" | "rows">, "a" | "b"> & { a: Side; b: Side };

export type WireView = With<api.WireView, "stored" | "sent" | "losses" | "bytes" | "mediaBytes" | "hidden" | "back">;
export type DoctorView = With<api.DoctorView, "findings" | "problems">;
export type CacheView = api.CacheView;
export type TimelineView = api.Timeline;
export type ContextView = Omit<With<api.ContextView, "total" | "exact" | "segments" | "compactions" | "left">, "answers"> & { answers: With<api.Reading, "read" | "fresh" | "cacheRead" | "cacheWrite" | "output">[] };

export type Model = With<api.ModelView, "input">;
type HandoverModel = Omit<With<api.HandoverModel, "losses" | "refuses">, "counts"> & { counts: Required<api.LossCounts> };
export type Handover = Omit<With<api.Handover, "reads" | "causes">, "models"> & { models: HandoverModel[] };
