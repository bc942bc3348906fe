/** The path as a list, with the branches that leave it: a third drawing of the same selection, and the tree for screen readers. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useId, useMemo, useRef } from "react";

import { cost, plural } from "./format";
import { callSummary, kindOf, speaker } from "./parts";
import { usePhone } from "./phone";
import type { SessionStore } from "./store";
import type { Row } from "./types";

type Line = { row: Row; depth: number; off: boolean };

/** What a screen reader says before the first words of a message and its cost: who wrote it, and where it stands. */
function about(row: Row, place: number | undefined, of: number, children: number): string {
  const parts = [speaker(row), place === undefined ? "another branch" : `message ${place} of ${of}`];
  if (children > 1) parts.push(plural(children, "branch", "branches"));
  if (row.error !== undefined || row.call?.error === true) parts.push("failed");
  if (row.role === "assistant" && row.usage !== undefined && row.cost === undefined) parts.push(cost(row.cost));
  return `${parts.join(", ")}: `;
}

/** `unseen`: not drawn, but there for assistive technology while the canvas shows the tree to the eye. */
export function Outline({ store, path, selected, onSelect, unseen = false }: { store: SessionStore; path: readonly string[]; selected?: string; onSelect: (id: string) => void; unseen?: boolean }) {
  const scroller = useRef<HTMLDivElement>(null);
  const phone = usePhone();
  const lines = useMemo(() => {
    const on = new Set(path);
    const found: Line[] = [];
    for (const id of path) {
      const row = store.tree.rows.get(id);
      if (row === undefined) continue;
      if (store.tree.isStep(id)) found.push({ row, depth: 0, off: false });
      for (const child of store.tree.children.get(id) ?? []) if (!on.has(child)) {
        const other = store.tree.rows.get(child);
        if (other !== undefined && (store.tree.children.get(id)?.length ?? 0) > 1 && on.has(id) && id !== path.at(-1)) found.push({ row: other, depth: 1, off: true });
      }
    }
    return found;
  }, [store, store.tree.version, path]); // eslint-disable-line
  const virtual = useVirtualizer({ count: lines.length, getScrollElement: () => scroller.current, estimateSize: () => (phone ? 44 : 28), overscan: 20 });
  const tree = useId();
  const step = store.tree.step(selected);
  const at = lines.findIndex((line) => line.row.id === step);
  useEffect(() => {
    if (at >= 0) virtual.scrollToIndex(at, { align: "auto" });
  }, [step, at >= 0 && store.loaded]); // eslint-disable-line
  return (
    <nav className={unseen ? "unseen" : "outline"} aria-label="outline">
      <header><b>Outline</b><span className="dim push">{plural(store.tree.paths, "path")}</span></header>
      <div className="tree" ref={scroller} tabIndex={0} role="tree" aria-label={`conversation, ${plural(store.tree.messages, "message")}`} aria-activedescendant={at < 0 ? undefined : `${tree}-${at}`}>
        <ul style={{ height: virtual.getTotalSize(), position: "relative" }} role="group">
          {virtual.getVirtualItems().map((item) => {
            const { row, depth, off } = lines[item.index]!;
            const siblings = store.tree.siblings(row.id);
            const bad = row.error !== undefined || row.call?.error === true;
            return (
              <li key={row.id} id={`${tree}-${item.index}`} role="treeitem" aria-level={depth + 1} aria-posinset={siblings.indexOf(row.id) + 1} aria-setsize={siblings.length} aria-selected={row.id === step} aria-current={row.id === step || undefined} className={off ? "off" : ""} style={{ position: "absolute", top: item.start, left: 0, right: 0 }} onClick={() => onSelect(row.id)}>
                <i className={`far ${bad ? "bad" : kindOf(row)}`} />
                <span className="unseen">{about(row, off ? undefined : store.tree.number(path, row.id), store.tree.length(path), store.tree.children.get(row.id)?.length ?? 0)}</span>
                <span className="cut" dir="auto">{row.text || callSummary(row) || speaker(row)}</span>
                <span className="n">{row.cost === undefined ? "" : cost(row.cost)}</span>
              </li>
            );
          })}
        </ul>
      </div>
    </nav>
  );
}
