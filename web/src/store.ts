/** The state of one open session, outside React: rows, contents, live nodes, runs. Views subscribe to what they read. */

import { useSyncExternalStore } from "react";

import { begin, rowsFrom, takeEarly, type Beginning, type Begun } from "./beginning";
import { parse } from "./exact";
import { ApiError, get } from "./http";
import { happened } from "./filled";
import { TreeModel } from "./tree";
import type {
  Approval,
  BlockView,
  EntryView,
  LineProblem,
  LiveNode,
  Row,
  Run,
  Session,
  Tree,
} from "./types";

export type Connection = "connecting" | "open" | "lost";
const ENTRIES = 100;

/** Runs may give their calls the same ids. */
const asking = (one: { run: string; callId: string }) => `${one.run} ${one.callId}`;

export class SessionStore {
  readonly key: string;
  readonly tree = new TreeModel();
  session?: Session;
  problems: LineProblem[] = [];
  view?: Tree["view"]; // as it was stored when the session was opened
  entries = new Map<string, EntryView>();
  live = new Map<string, LiveNode>();
  runs = new Map<string, Run>();
  waiting = new Map<string, Approval>();
  readonly sent = new Set<string>(); // messages that were written here for one model, until one is chosen by hand
  readonly drafts = new Map<string, { text: string; saving: boolean }>(); // of notes
  progress = new Map<string, { state: string; text?: string; ms?: number }>();
  connection: Connection = "connecting";
  lostAt?: number;
  deleted = false; // or otherwise not there any more; it may come back
  nextTry?: number;
  error?: ApiError | Error;
  problem?: Error;
  announcement = "";
  loaded = false;
  version = 0;

  #listeners = new Set<() => void>();
  #wanted = new Set<string>();
  #fetching = new Set<string>();
  #timer?: number;
  #source?: EventSource;
  #retry = 500;
  #waiting?: number;
  #closed = false;
  #frame?: number;
  #epoch?: string;
  #total = 0;

  #rest?: number; // the row from which the tree is read after its beginning
  #partial = false; // only a part of a path is there, whose rows have no parents yet

  constructor(key: string) {
    this.key = key;
    const early = takeEarly(key);
    if (early !== undefined) this.#begin(early);
  }

  #begin({ page, entries }: Begun): void {
    this.tree.put(page.rows);
    for (const entry of entries) this.entries.set(entry.id, entry);
    this.problems = page.problems;
    this.#rest = page.next;
    this.#partial = page.next === 0;
    this.#take(page);
  }

  #take(page: Tree): void {
    this.tree.setHead(page.head, page.branches);
    this.session = page.session;
    this.view ??= page.view;
    this.#epoch = page.epoch;
    this.#total = page.total;
    this.changed();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Something that was asked for did not happen: shown until it is closed. */
  fail(problem: Error | undefined): void {
    this.problem = problem;
    this.changed();
  }

  /** Tells the views, at most once per frame. */
  changed(): void {
    this.version += 1;
    if (this.#frame !== undefined) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = undefined;
      for (const listener of this.#listeners) listener();
    });
  }

  async open(first: Beginning = { reading: false }): Promise<void> {
    this.#closed = false;
    try {
      if (this.session === undefined) this.#begin(await begin(this.key, first));
      await this.#load(this.#rest);
      this.#listen();
    } catch (error) {
      this.error = error as Error;
      this.changed();
    }
  }

  close(): void {
    this.#closed = true;
    this.#source?.close();
    window.clearTimeout(this.#timer);
    window.clearTimeout(this.#waiting);
  }

  /**
   * The rows from `since` on. They are shown when all of them are there: a large tree is laid out once, and one that is
   * read anew takes the place of the old one at once.
   */
  async #load(since: number | undefined): Promise<void> {
    const anew = since === 0;
    const rows: Row[] = [];
    let last: Tree | undefined;
    for (let next = since; next !== undefined; next = last.next) {
      last = await rowsFrom(this.key, next);
      if (this.#closed) return;
      if (next === 0) this.problems = last.problems;
      rows.push(...last.rows);
    }
    if (anew) this.tree.clear();
    if (anew && !this.#partial) this.entries.clear();
    this.#partial = false;
    this.tree.put(rows);
    this.loaded = true;
    if (last !== undefined) this.#take(last);
    this.changed();
  }

  /** Asks for contents that a view shows; requests of one frame go together. */
  want(ids: Iterable<string>): void {
    for (const id of ids)
      if (!this.entries.has(id) && !this.#fetching.has(id) && this.tree.rows.has(id)) this.#wanted.add(id);
    if (this.#wanted.size > 0 && this.#timer === undefined)
      this.#timer = window.setTimeout(() => {
        this.#timer = undefined;
        void this.#fetch();
      }, 16);
  }

  /** All of these contents, for what cannot ask as it goes: paper. */
  async all(ids: readonly string[]): Promise<void> {
    for (const id of ids) if (!this.entries.has(id)) this.#wanted.add(id);
    while (this.#wanted.size > 0) await this.#fetch();
  }

  async #fetch(): Promise<void> {
    const ids = [...this.#wanted].slice(0, ENTRIES);
    for (const id of ids) {
      this.#wanted.delete(id);
      this.#fetching.add(id);
    }
    try {
      const answer = await get<{ entries: EntryView[] }>(`/api/sessions/${this.key}/entries`, { ids: ids.join(",") });
      for (const entry of answer.entries) this.entries.set(entry.id, entry);
    } catch (error) {
      this.error = error as Error;
    }
    for (const id of ids) this.#fetching.delete(id);
    this.changed();
    if (this.#wanted.size > 0) void this.#fetch();
  }

  #listen(): void {
    if (this.#closed) return;
    const source = new EventSource(`/api/sessions/${this.key}/events`);
    this.#source = source;
    source.onopen = () => {
      this.connection = "open";
      this.deleted = false;
      this.#retry = 500;
      this.changed();
    };
    // The page retries itself, so that it can say when, and read anew what a restarted server has.
    source.onerror = () => {
      source.close();
      this.#again();
    };
    for (const [name, handle] of Object.entries(this.#handlers))
      source.addEventListener(name, (event) => {
        handle(happened(name, parse((event as MessageEvent<string>).data) as never) as never);
        this.changed();
      });
  }

  #again(): void {
    this.#source?.close();
    if (this.#closed) return;
    if (this.connection !== "lost") this.lostAt = Date.now();
    this.connection = "lost";
    this.nextTry = Date.now() + this.#retry;
    this.changed();
    window.clearTimeout(this.#waiting);
    this.#waiting = window.setTimeout(() => void this.#load(0).then(() => this.#listen(), (error: Error) => { this.deleted = error instanceof ApiError && error.status === 404; this.#again(); }), this.#retry);
    this.#retry = Math.min(this.#retry * 2, 10_000);
  }

  readonly #handlers: Record<string, (data: never) => void> = {
    snapshot: (data: { epoch: string; total: number; head?: string; branches: Tree["branches"]; session: Session; live: LiveNode[]; runs: Run[] }) => {
      this.session = data.session;
      this.tree.setHead(data.head, data.branches);
      // What was written between reading the tree and listening.
      if (data.epoch !== this.#epoch) void this.#load(0).catch(() => this.#again());
      else if (data.total > this.#total) void this.#load(this.#total).catch(() => this.#again());
      this.live = new Map(data.live.map((node) => [node.node, node]));
      this.runs = new Map(data.runs.map((run) => [run.id, run]));
      this.waiting = new Map(data.runs.flatMap((run) => run.waiting.map((one) => [asking(one), one])));
    },
    rows: (data: { rows: Row[]; total?: number; head?: string }) => {
      this.#total = Math.max(this.#total, data.total ?? 0);
      for (const row of data.rows) {
        this.entries.delete(row.id);
        if (row.live !== undefined) this.live.delete(row.live); // the row takes its place
      }
      this.tree.put(data.rows);
      if (data.head !== undefined) this.tree.setHead(data.head);
      this.want(data.rows.map((row) => row.id));
    },
    head: (data: { head?: string; branches: Tree["branches"] }) => this.tree.setHead(data.head, data.branches),
    session: (data: Session) => {
      this.session = data;
    },
    run: (data: Run) => {
      this.runs.set(data.id, data);
      if (data.state !== "waiting") for (const [id, one] of this.waiting) if (one.run === data.id) this.waiting.delete(id);
    },
    live: (data: LiveNode) => {
      if (!this.live.has(data.node)) this.announcement = `${data.model ?? "the model"} is answering`;
      this.live.set(data.node, data);
    },
    delta: (data: { node: string; parts: { block: number; text: string }[] }) => {
      const node = this.live.get(data.node);
      if (node === undefined) return;
      const content = [...node.content];
      for (const part of data.parts) content[part.block] = grown(content[part.block], part.text);
      this.live.set(data.node, { ...node, content });
    },
    block: (data: { node: string; block: number; value: BlockView }) => {
      const node = this.live.get(data.node);
      if (node === undefined) return;
      const content = [...node.content];
      content[data.block] = data.value;
      this.live.set(data.node, { ...node, content });
    },
    usage: () => undefined,
    settled: (data: { node: string; entry?: string; error?: { message?: string } | string }) => {
      const who = (this.live.get(data.node) ?? this.tree.rows.get(data.entry ?? ""))?.model ?? "the model";
      this.announcement = data.error === undefined ? `${who} has answered` : `the answer of ${who} failed`;
      this.live.delete(data.node);
    },
    tool: (data: { callId: string; state: string; text?: string; ms?: number }) => {
      this.progress.set(data.callId, data);
    },
    waiting: (data: Approval) => {
      this.announcement = `${data.tool} needs your approval`;
      this.waiting.set(asking(data), data);
    },
    answered: (data: { run: string; callId: string }) => {
      this.waiting.delete(asking(data));
    },
    reload: () => this.#again(),
    shutdown: () => this.#again(),
  };
}

/** A block with more of its text. A `block` event says what it is before its first delta. */
function grown(block: BlockView | undefined, text: string): BlockView {
  if (block?.type === "toolCall") return { ...block, argumentsText: (block.argumentsText ?? "") + text };
  if (block?.type === "text" || block?.type === "thinking") return { ...block, text: block.text + text };
  return block ?? { type: "text", text };
}

/** Re-renders a component when the store changes; the store itself is the value. */
export function useStore(store: SessionStore): SessionStore {
  useSyncExternalStore(store.subscribe, () => store.version);
  return store;
}
