/** One session's tree: rows by id, children in order of birth, paths. Kept outside React; views read it by version. */

import type { Branch, Row } from "./types";

const MESSAGES = new Set(["user", "assistant", "toolResult", "system"]);

/** What counts as a message, here and in the lists of sessions. */
export function isMessage(row: Row): boolean {
  return MESSAGES.has(row.role);
}

/** A program's record of its own work (a mode, a snapshot, a count of tokens): stored with the messages, and none of them. */
export function isRecord(row: Row): boolean {
  return !isMessage(row) && row.role !== "compaction" && row.bad === undefined;
}

export class TreeModel {
  readonly rows = new Map<string, Row>();
  readonly children = new Map<string, string[]>();
  roots: string[] = [];
  /** Records that no message follows, by what they follow ("" before all): they begin no path of their own. */
  readonly beside = new Map<string, string[]>();
  messages = 0;
  head?: string;
  branches: Branch[] = [];
  version = 0;
  /** Sub-agents in the same file: the first entry of each, by the entry whose call started it. */
  readonly threads = new Map<string, string[]>();
  readonly #ofAgents = new Set<string>(); // entries of these sub-agents
  /** The child last visited at each fork: where a path goes on when nothing else says so. */
  readonly visited = new Map<string, string>();
  /** The answer whose call a result belongs to, and the results of every call; see `#pair`. */
  readonly callers = new Map<string, string>();
  readonly #results = new Map<string, string[]>();
  readonly #numbers = new WeakMap<readonly string[], ReadonlyMap<string, number>>();
  #leaves?: { version: number; ids: readonly string[] };

  put(rows: Iterable<Row>): void {
    let repair = false;
    for (const row of rows) {
      const before = this.rows.get(row.id);
      this.rows.set(row.id, row);
      if (before === undefined) {
        this.#attach(row);
        if (isMessage(row)) this.messages += 1;
      } else if (before.parent !== row.parent) {
        this.#detach(before);
        this.#attach(row);
      }
      if (before === undefined) this.#pair(row);
      else if (before.call?.id !== row.call?.id || before.parent !== row.parent || (before.calls ?? []).map((call) => call.id).join("\n") !== (row.calls ?? []).map((call) => call.id).join("\n")) repair = true;
    }
    if (repair) {
      this.callers.clear();
      this.#results.clear();
      for (const row of this.rows.values()) this.#pair(row);
    }
    this.version += 1;
  }

  /** A result answers the nearest earlier call of its id in the turn, and each call is answered once on a path. */
  #pair(row: Row): void {
    const id = row.call?.id;
    if (id === undefined) return;
    let taken = 0;
    for (let up = row.parent; up !== undefined; ) {
      const above = this.rows.get(up);
      if (above === undefined || above.role === "user") return;
      if (above.call?.id === id) taken += 1;
      const calls = above.calls?.filter((call) => call.id === id).length ?? 0;
      if (calls > taken) {
        this.callers.set(row.id, above.id);
        const key = `${above.id}\n${id}`;
        this.#results.set(key, [...(this.#results.get(key) ?? []), row.id]);
        return;
      }
      taken -= calls;
      up = above.parent;
    }
  }

  /** The row that answers the nth call of this id in an entry: the one on the path, else the first that was born. */
  result(entry: string, call: string, nth: number, path?: ReadonlySet<string>): Row | undefined {
    const all = this.#results.get(`${entry}\n${call}`) ?? [];
    const here = path === undefined ? [] : all.filter((id) => path.has(id));
    const found = (here.length > 0 ? here : all)[nth];
    return found === undefined ? undefined : this.rows.get(found);
  }

  setHead(head: string | undefined, branches?: Branch[]): void {
    this.head = head;
    if (branches !== undefined) this.branches = branches;
    this.version += 1;
  }

  clear(): void {
    this.rows.clear();
    this.children.clear();
    this.beside.clear();
    this.threads.clear();
    this.#ofAgents.clear();
    this.callers.clear();
    this.#results.clear();
    this.messages = 0;
    this.roots = [];
    this.branches = [];
    this.head = undefined;
    this.version += 1;
  }

  #attach(row: Row): void {
    if (row.caller !== undefined || this.#ofAgents.has(row.parent ?? "")) this.#ofAgents.add(row.id);
    if (row.caller !== undefined) {
      this.threads.set(row.caller, [...(this.threads.get(row.caller) ?? []), row.id]);
      return;
    }
    const parent = row.parent !== undefined && this.rows.has(row.parent) ? row.parent : undefined;
    if (isRecord(row)) {
      const others = this.beside.get(parent ?? "");
      if (others === undefined) this.beside.set(parent ?? "", [row.id]);
      else others.push(row.id);
      return;
    }
    this.#place(row.id, parent);
    // What follows records puts them on its path.
    for (let up = parent; up !== undefined && this.#unbeside(up); up = this.rows.get(up)?.parent) this.#place(up, this.rows.get(up)?.parent);
  }

  #unbeside(id: string): boolean {
    const row = this.rows.get(id);
    if (row === undefined || !isRecord(row)) return false;
    const others = this.beside.get(row.parent !== undefined && this.rows.has(row.parent) ? row.parent : "");
    const at = others?.indexOf(id) ?? -1;
    if (at >= 0) others!.splice(at, 1);
    return at >= 0;
  }

  #place(id: string, above: string | undefined): void {
    const parent = above !== undefined && this.rows.has(above) ? above : undefined;
    if (parent === undefined) this.roots.push(id);
    else {
      const siblings = this.children.get(parent);
      if (siblings === undefined) this.children.set(parent, [id]);
      else siblings.push(id);
    }
  }

  #detach(row: Row): void {
    if (isRecord(row) && this.#unbeside(row.id)) return;
    if (row.caller !== undefined) return; // it has no parent that could change
    const siblings = row.parent !== undefined ? this.children.get(row.parent) : this.roots;
    const list = siblings ?? this.roots;
    const at = list.indexOf(row.id);
    if (at >= 0) list.splice(at, 1);
  }

  /** The ids from the root to this entry. */
  path(to: string | undefined): string[] {
    const found: string[] = [];
    const seen = new Set<string>();
    for (let id = to; id !== undefined && !seen.has(id); ) {
      const row = this.rows.get(id);
      if (row === undefined) break;
      seen.add(id);
      found.push(id);
      id = row.parent;
    }
    return found.reverse();
  }

  /** The leaf that a path through this entry leads to: the child last visited, else the one on the way to the head, else the first. */
  leaf(from: string, towards?: ReadonlySet<string>): string {
    let id = from;
    for (;;) {
      const children: string[] = this.children.get(id) ?? [];
      if (children.length === 0) return id;
      const visited = this.visited.get(id);
      id =
        children.find((child) => towards?.has(child)) ??
        (visited !== undefined && children.includes(visited) ? visited : undefined) ??
        children[0]!;
    }
  }

  /** The path on which a selection stands, towards `to` or the head. */
  through(selected: string | undefined, to: string | undefined): string[] {
    const towards = this.path(to !== undefined && this.rows.has(to) ? to : this.head);
    const from = selected === undefined ? undefined : this.anchor(selected);
    return from === undefined ? towards : this.path(this.leaf(from, new Set(towards)));
  }

  /** An entry and all that follow it. */
  below(id: string): Row[] {
    const found: Row[] = [];
    for (const pending = [id]; pending.length > 0; ) {
      const row = this.rows.get(pending.pop()!);
      if (row !== undefined) found.push(row);
      pending.push(...(this.children.get(row?.id ?? "") ?? []));
    }
    return found.sort((a, b) => a.seq - b.seq);
  }

  /** The conversation of a sub-agent in the same file, by its first entry. Sub-agents of its own stay beside their calls. */
  thread(first: string): TreeModel {
    const own = new TreeModel();
    const rows: Row[] = [];
    for (const pending = [first]; pending.length > 0; ) {
      const found = this.below(pending.pop()!);
      rows.push(...found);
      for (const row of found) pending.push(...(this.threads.get(row.id) ?? []));
    }
    own.put(rows.sort((a, b) => a.seq - b.seq).map((row) => (row.id === first ? { ...row, caller: undefined } : row)));
    own.setHead(this.below(first).at(-1)?.id);
    return own;
  }

  /** Entries without children, where paths end; looked for once per version. */
  leaves(): readonly string[] {
    if (this.#leaves?.version !== this.version)
      this.#leaves = { version: this.version, ids: [...this.rows.values()].filter((row) => !isRecord(row) && (this.children.get(row.id)?.length ?? 0) === 0).map((row) => row.id) };
    return this.#leaves.ids;
  }

  /** How many paths there are; those of sub-agents in the same file are none of this conversation. */
  get paths(): number {
    return this.leaves().filter((id) => !this.#ofAgents.has(id)).length;
  }

  /** The nearest entry on a path: for a record that no message follows, the one before it. */
  anchor(id: string): string | undefined {
    let at: string | undefined = id;
    for (let row = this.rows.get(id); row !== undefined && isRecord(row) && !this.children.has(row.id); row = at === undefined ? undefined : this.rows.get(at)) at = row.parent;
    return at !== undefined && this.rows.has(at) ? at : undefined;
  }

  /** Whether an entry is a step to the reader: a result stands in its call, and a record below what it follows. */
  isStep(id: string): boolean {
    const row = this.rows.get(id);
    return row !== undefined && (!this.callers.has(id) || row.call?.error === true) && (!isRecord(row) || this.messages === 0);
  }

  /** The step that shows an entry: its own, that of its call, or the one before a record. */
  step(id: string | undefined): string | undefined {
    let at = id === undefined ? undefined : this.anchor(id);
    while (at !== undefined && !this.isStep(at)) at = this.callers.get(at) ?? this.rows.get(at)?.parent;
    return at;
  }

  /** The number of a message on a path, counted from one; of what is no message, that of the last one before it. */
  number(path: readonly string[], id: string | undefined): number {
    return this.#numbered(path).get((id === undefined ? undefined : this.anchor(id)) ?? "") ?? 0;
  }

  /** How many messages a path has. */
  length(path: readonly string[]): number {
    return this.number(path, path.at(-1));
  }

  #numbered(path: readonly string[]): ReadonlyMap<string, number> {
    let known = this.#numbers.get(path);
    if (known === undefined) {
      let number = 0;
      known = new Map(path.map((id) => [id, isMessage(this.rows.get(id)!) ? (number += 1) : number]));
      this.#numbers.set(path, known);
    }
    return known;
  }

  siblings(id: string): string[] {
    const { parent, caller } = this.rows.get(id) ?? {};
    if (caller !== undefined) return this.threads.get(caller) ?? [];
    return parent === undefined || !this.rows.has(parent) ? this.roots : (this.children.get(parent) ?? []);
  }

  branchOf(id: string): Branch | undefined {
    return this.branches.find((branch) => branch.head === id);
  }
}
