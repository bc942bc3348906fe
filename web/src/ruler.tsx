/** The context ruler: what the model had read at the selected message; opened, a bar per answer. */

import { lazy, Suspense, useEffect, useState } from "react";

import { plural, tokens } from "./format";
import { Icon } from "./icons";
import { inParts } from "./long";
import type { SessionStore } from "./store";
import type { ContextView } from "./types";

const Drawer = lazy(() => import("./drawer"));
const BARS = 240; // across the whole window
const LAST = 1000; // messages
type Segment = ContextView["segments"][number];
const KINDS: Record<string, string> = { user: "u", assistant: "as", toolResult: "t" };

/** Neighbours that are too narrow to be seen become one bar, of the kind of the largest. */
function bars(segments: readonly Segment[], whole: number): { tokens: number; largest: Segment }[] {
  const found: { tokens: number; largest: Segment }[] = [];
  for (const one of segments) {
    const last = found.at(-1);
    if (last === undefined || last.tokens >= whole / BARS) found.push({ tokens: one.tokens, largest: one });
    else {
      last.tokens += one.tokens;
      if (one.tokens > last.largest.tokens) last.largest = one;
    }
  }
  return found;
}

export function Ruler({ store, path, selected, open, onToggle, onSelect }: { store: SessionStore; path: readonly string[]; selected?: string; open: boolean; onToggle: () => void; onSelect: (id: string) => void }) {
  const [context, setContext] = useState<ContextView>();
  // The nearest answer at or after the selection is the one that read it.
  const here = selected === undefined ? -1 : path.indexOf(store.tree.anchor(selected) ?? selected);
  const isAnswer = (id: string | undefined) => store.tree.rows.get(id ?? "")?.role === "assistant";
  const answer = path.slice(Math.max(0, here)).find(isAnswer) ?? path.at(-1);
  useEffect(() => {
    if (answer === undefined || !store.loaded) return;
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      inParts<ContextView>(store, "context", { to: answer }, LAST, abort.signal, setContext).catch(() => undefined);
    }, 80);
    return () => { window.clearTimeout(timer); abort.abort(); };
  }, [store, answer, store.loaded]);
  const number = store.tree.number(path, selected);
  if (context === undefined) return <div className="ruler" />;
  const window_ = context.window ?? Math.max(context.total, 1);
  const part = (count: number) => `${Math.min(100, (100 * count) / window_)}%`;
  let before = 0;
  for (const one of context.segments) {
    if (one.entry === selected) break;
    before += one.tokens;
  }
  return (
    <>
      {open && <Suspense fallback={<section className="drawer" />}><Drawer store={store} context={context} to={path.at(-1)} selected={isAnswer(answer) ? answer : path.findLast(isAnswer)} onSelect={onSelect} onClose={onToggle} /></Suspense>}
      <button type="button" className="ruler" onClick={onToggle} aria-expanded={open} title="What the model read">
        <span><b>{context.exact ? "" : context.partial ? "more than " : "about "}{tokens(context.total)}</b>{context.window === undefined ? " tokens read" : ` of ${tokens(context.window)} tokens read`}{number > 0 && <span className="at"> at message {number}</span>}{context.window === undefined && ", window unknown"}</span>
        <span className="scale">
          <span className="bar">
            {bars(context.segments, window_).map(({ tokens, largest }, at) => <i key={at} className={largest.kind === "message" ? (KINDS[largest.role ?? ""] ?? "t") : "sy"} style={{ width: part(tokens) }} />)}
          </span>
          {context.cached !== undefined && context.cached > 0 && <i className="cachemark" style={{ width: part(context.cached) }} />}
          <i className="now" style={{ left: part(before) }} />
        </span>
        {context.cached !== undefined && context.cached > 0 && <span><Icon name="cache" className="s" /> {tokens(context.cached)} from cache</span>}
        {context.compactions.length > 0 && <span>{plural(context.compactions.length, "compaction")}</span>}
      </button>
    </>
  );
}
