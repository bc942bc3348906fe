/** One session's tree: rows by id, children in order of birth, paths. Kept outside React; views read it by version. */

import type { Branch, Row } from "./types";

export class TreeModel {
  readonly rows = new Map<string, Row>();
  readonly children = new Map<string, string[]>();
  roots: string[] = [];
  head?: string;
  branches: Branch[] = [];
  version = 0;
  /** The child last visited at each fork: where a path goes on when nothing else says so. */
  readonly visited = new Map<string, string>();

  put(rows: Iterable<Row>): void {
    for (const row of rows) {
      const before = this.rows.get(row.id);
      this.rows.set(row.id, row);
      if (before === undefined) this.#attach(row);
      else if (before.parent !== row.parent) {
        this.#detach(before);
        this.#attach(row);
      }
    }
    this.version += 1;
  }

  remove(id: string): void {
    const row = this.rows.get(id);
    if (row === undefined) return;
    this.#detach(row);
    this.rows.delete(id);
    this.version += 1;
  }

  setHead(head: string | undefined, branches?: Branch[]): void {
    this.head = head;
    if (branches !== undefined) this.branches = branches;
    this.version += 1;
  }

  clear(): void {
    this.rows.clear();
    this.children.clear();
    this.roots = [];
    this.branches = [];
    this.head = undefined;
    this.version += 1;
  }

  #attach(row: Row): void {
    const parent = row.parent !== undefined && this.rows.has(row.parent) ? row.parent : undefined;
    if (parent === undefined) this.roots.push(row.id);
    else {
      const siblings = this.children.get(parent);
      if (siblings === undefined) this.children.set(parent, [row.id]);
      else siblings.push(row.id);
    }
  }

  #detach(row: Row): void {
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

  leaves(): string[] {
    return [...this.rows.keys()].filter((id) => !this.children.has(id) || this.children.get(id)!.length === 0);
  }

  siblings(id: string): string[] {
    const parent = this.rows.get(id)?.parent;
    return parent === undefined || !this.rows.has(parent) ? this.roots : (this.children.get(parent) ?? []);
  }

  branchOf(id: string): Branch | undefined {
    return this.branches.find((branch) => branch.head === id);
  }
}
