/** What the canvas draws of a tree: which rows have a card, which stand inside another, and what hangs at forks. */

import type { SessionStore } from "./store";
import { isRecord, type TreeModel } from "./tree";
import type { LiveNode, Row } from "./types";

export type Shown = {
  rows: Row[];
  /** Where a row is drawn: itself, the card of its call, or the card that it is folded into. */
  card: Map<string, string>;
  /** The card above, for edges and layout. */
  above: Map<string, string>;
  hidden: Map<string, number>;
  /** The frames of sub-agents beside a card: keys of sessions, and `@` with the first entry for one in the same file. */
  frames: Map<string, string[]>;
};

/** What is folded away: whole subtrees, straight runs of messages, and all tool loops. Saved with the session. */
export type Folds = { folded: ReadonlySet<string>; runs: ReadonlySet<string>; loops: boolean };
export const UNFOLDED: Folds = { folded: new Set(), runs: new Set(), loops: false };

/** The folds of a stored view state, which may have been written by an older page. */
export function storedFolds(view: { folded?: unknown; runs?: unknown; loops?: unknown } | undefined): Folds {
  if (view === undefined) return UNFOLDED;
  const ids = (found: unknown) => new Set(Array.isArray(found) ? found.map(String) : []);
  return { folded: ids(view.folded), runs: ids(view.runs), loops: view.loops === true };
}

export function liveRow(node: LiveNode): Row {
  const text = node.content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join(" ");
  const calls = node.content.flatMap((block) => (block.type === "toolCall" ? [{ id: block.id, name: block.name }] : []));
  return { seq: Number.MAX_SAFE_INTEGER, id: node.node, parent: node.parent, role: "assistant", text: text.slice(-150), model: node.model, calls };
}

/** A result that went well stands in the row of its call; a failed one, and one where paths part, has a card. */
function absorbed(tree: TreeModel, row: Row): boolean {
  return tree.callers.has(row.id) && row.call?.error !== true && (row.images ?? 0) === 0 && (tree.children.get(row.id)?.length ?? 0) <= 1;
}

/** An answer that calls tools, or a result: a step of a tool loop. */
function isStep(row: Row): boolean {
  return row.role === "toolResult" || (row.role === "assistant" && (row.calls?.length ?? 0) > 0);
}

/** Sub-agents in the same file are frames beside their calls. */
export function shown({ tree }: { tree: TreeModel }, { folded, runs, loops }: Folds): Shown {
  const rows: Row[] = [];
  const card = new Map<string, string>();
  const above = new Map<string, string>();
  const closed = new Set<string>(); // rows at and below a folded card
  const hidden = new Map<string, number>();
  const frames = new Map<string, string[]>();
  const agents = new Map<string, string>(); // rows of sub-agents, by the entry that started them
  const run = new Map<string, string>(); // rows of a folded run, by the card that it began with
  const heads = new Set(tree.branches.map((branch) => branch.head));
  // A run goes on through single children, and ends before a fork, the end of a path or the head of a branch.
  const straight = (row: Row) => (tree.children.get(row.id)?.length ?? 0) === 1 && !heads.has(row.id);
  const hide = (row: Row, into: string) => {
    card.set(row.id, into);
    hidden.set(into, (hidden.get(into) ?? 0) + 1);
  };
  for (const row of tree.rows.values()) {
    const caller = row.caller ?? agents.get(row.parent ?? "");
    if (caller !== undefined && card.has(caller)) {
      agents.set(row.id, caller);
      card.set(row.id, card.get(caller)!);
      if (row.caller !== undefined) frames.set(card.get(caller)!, [...(frames.get(card.get(caller)!) ?? []), `@${row.id}`]);
      continue;
    }
    const parent = row.parent === undefined ? undefined : card.get(row.parent);
    const from = row.parent === undefined ? undefined : run.get(row.parent);
    const closes = row.parent !== undefined && parent !== undefined && (closed.has(row.parent) || folded.has(row.parent));
    if (isRecord(row) && tree.messages > 0) {
      // Records have no card: the transcript has them below what they follow.
      if (parent !== undefined) card.set(row.id, parent);
      if (closes) closed.add(row.id);
      if (from !== undefined) run.set(row.id, from);
    } else if (closes) {
      closed.add(row.id);
      hide(row, parent);
    } else if (from !== undefined && straight(row) && (runs.has(from) || isStep(row))) {
      run.set(row.id, from);
      if (tree.callers.get(row.id) === from && absorbed(tree, row)) card.set(row.id, from);
      else hide(row, from);
    } else if (parent !== undefined && absorbed(tree, row)) {
      card.set(row.id, card.get(tree.callers.get(row.id)!)!);
    } else {
      rows.push(row);
      card.set(row.id, row.id);
      if (straight(row) && (runs.has(row.id) || (loops && isStep(row)))) run.set(row.id, row.id);
    }
    // What follows hangs below the nearest card above, which need not be the one that holds its parent.
    let up = row.parent;
    while (up !== undefined && card.get(up) !== up) up = tree.rows.get(up)?.parent;
    if (up !== undefined) above.set(row.id, up);
  }
  for (const row of rows) if (row.spawned !== undefined) frames.set(row.id, [...row.spawned, ...(frames.get(row.id) ?? [])]);
  return { rows, card, above, hidden, frames };
}

export type Chip = { name: string; live: boolean; head: string };

/** The names at forks: each child of a fork shows the branch that leads through it. */
export function chips(store: SessionStore): Map<string, Chip> {
  const found = new Map<string, Chip>();
  const { tree } = store;
  const writing = new Set<string>();
  for (const node of store.live.values()) for (const id of tree.path(node.parent)) writing.add(id);
  for (const branch of [...tree.branches].sort((a, b) => Number(b.current ?? false) - Number(a.current ?? false)))
    for (const id of tree.path(branch.head))
      if (!found.has(id) && tree.siblings(id).length > 1) found.set(id, { name: branch.name, live: branch.live === true || writing.has(id), head: branch.head });
  return found;
}
