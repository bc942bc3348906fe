/** Opened from the context ruler: what the model read at each answer, which prefix was reused and what broke it, time and cost. */

import { lazy, Suspense, useEffect, useRef, useState } from "react";

import { get } from "./http";
import { bytes, cost, plural, tokens } from "./format";
import { Icon } from "./icons";
import { inParts } from "./long";
import { Busy, Button } from "./parts";
import { visible } from "./plain";
import type { SessionStore } from "./store";
import type { CacheView, ContextView } from "./types";

const Charts = lazy(() => import("./charts"));
const COMPARED = 500; // messages: of a longer path, requests are compared from there on
const TABS = [["read", "What the model read"], ["cache", "Cache"], ["time", "Time and cost"]] as const;

/** Keeps the selected answer in view. */
function useInView(selected: string | undefined, shown: unknown): React.RefObject<HTMLDivElement | null> {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => void list.current?.querySelector(".here")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [selected, shown]);
  return list;
}

export default function Drawer({ store, context, to, selected, onSelect, onClose }: { store: SessionStore; context: ContextView; to?: string; selected?: string; onSelect: (id: string) => void; onClose: () => void }) {
  const [tab, setTab] = useState<(typeof TABS)[number][0]>("read");
  return (
    <section className="drawer" aria-label="context by answer">
      <header>
        <span className="seg" role="group" aria-label="drawer">{TABS.map(([id, label]) => <button key={id} type="button" aria-pressed={tab === id} onClick={() => setTab(id)}>{label}</button>)}</span>
        <span className="push" /><Button icon="x" label="Close" kind="bare" small hideLabel onClick={onClose} keys="x" />
      </header>
      {tab === "read" && <Read store={store} to={to} now={context} selected={selected} onSelect={onSelect} />}
      {tab === "cache" && <Cache store={store} to={to} selected={selected} onSelect={onSelect} />}
      {tab === "time" && <Suspense fallback={<p className="dim">…</p>}><Charts store={store} to={to} onSelect={onSelect} /></Suspense>}
    </section>
  );
}

/** All answers of the path, whichever of them is selected. */
function Read({ store, to, now, selected, onSelect }: { store: SessionStore; to?: string; now: ContextView; selected?: string; onSelect: (id: string) => void }) {
  const [whole, setWhole] = useState<ContextView>();
  useEffect(() => {
    const abort = new AbortController();
    inParts<ContextView>(store, "context", { to }, 1000, abort.signal, setWhole).catch(() => undefined);
    return () => abort.abort();
  }, [store, to]);
  const context = whole ?? now;
  const list = useInView(selected, context);
  const most = Math.max(1, ...context.answers.map((one) => one.read + one.output));
  const extra = context.answers.reduce((sum, one) => sum + (one.extraCost ?? 0), 0);
  const high = (count: number) => `${(96 * count) / most}px`;
  return (
    <>
      <p className="legend">
        <span className="lg"><i className="b-c" />from cache</span><span className="lg"><i className="b-f" />fresh</span><span className="lg"><i className="b-o" />output</span>
        <span className="dim">largest: {tokens(most)} tokens</span>
        {extra > 0 && <span className="loss weakened"><Icon name="weakened" />broken cache prefixes cost {cost(extra)} more</span>}
        {context.left > 0 && <span className="dim">{context.left} earlier messages were compacted and not read</span>}
      </p>
      <div className="bars" ref={list}>
        {context.answers.map((one) => (
          <button key={one.entry} type="button" className={`abar ${one.entry === selected ? "here" : ""} ${one.broke !== undefined ? "broke" : ""}`} title={`message ${one.number}: ${tokens(one.read)} read, ${tokens(one.cacheRead)} from cache, ${tokens(one.output)} written${one.broke === undefined ? "" : `; prefix broken: ${one.broke}`}`} onClick={() => onSelect(one.entry)}>
            <span className="col"><i className="b-o" style={{ height: high(one.output) }} /><i className="b-f" style={{ height: high(one.fresh + one.cacheWrite) }} /><i className="b-c" style={{ height: high(one.cacheRead) }} /></span>
            <span className="num">{one.number}</span>
          </button>
        ))}
        {context.answers.length === 0 && <p className="dim">No answer on this path yet.</p>}
      </div>
    </>
  );
}

/** Byte by byte: how much of each request stood at the beginning of the one before it, and what came first that did not. */
function Cache({ store, to, selected, onSelect }: { store: SessionStore; to?: string; selected?: string; onSelect: (id: string) => void }) {
  const [view, setView] = useState<CacheView>();
  const [problem, setProblem] = useState<string>();
  const [whole, setWhole] = useState(false);
  const [busy, setBusy] = useState(true);
  useEffect(() => {
    const abort = new AbortController();
    const last = whole ? undefined : COMPARED;
    setBusy(true);
    get<CacheView>(`/api/sessions/${store.key}/cache`, { to, last }, abort.signal)
      .then(setView, (error: Error) => abort.signal.aborted || setProblem(error.message))
      .finally(() => abort.signal.aborted || setBusy(false));
    return () => abort.abort();
  }, [store, to, whole]);
  const list = useInView(selected, view);
  if (problem !== undefined) return <p className="err" role="alert"><Icon name="alert" />{problem}</p>;
  if (view === undefined) return <Busy text="Comparing the requests" />;
  const path = store.tree.path(to);
  const asked = path.filter((id) => store.tree.rows.get(id)?.role === "assistant").length;
  const most = Math.max(1, ...view.answers.map((one) => one.bytes));
  return (
    <div className="cachelist" ref={list} tabIndex={0} aria-label="requests and their shared prefixes">
      {view.answers.map((one) => (
        <button key={one.entry} type="button" className={one.entry === selected ? "here" : ""} onClick={() => onSelect(one.entry)}>
          <span className="num">{store.tree.number(path, one.entry)}</span>
          <span className="cut">{visible(one.model ?? "model unknown")}<span className="dim"> {one.dialect}</span></span>
          <span className="shared" style={{ width: `${(100 * one.bytes) / most}%` }}><i className="b-c" style={{ width: `${one.bytes === 0 ? 0 : (100 * one.shared) / one.bytes}%` }} /></span>
          <span className="num">{bytes(one.shared)} of {bytes(one.bytes)} shared</span>
          <span className="num dim">{one.tokens === undefined ? "tokens unknown" : `${tokens(one.tokens.read)} from cache, ${tokens(one.tokens.fresh)} fresh`}</span>
          {one.broke !== undefined && (
            <span className="why loss weakened"><Icon name="weakened" /><span>prefix broken at <code>{visible(one.broke.path)}</code>: {visible(one.broke.why)}{one.broke.was !== undefined && <> (<del>{visible(one.broke.was)}</del> now <ins>{visible(one.broke.is ?? "absent")}</ins>)</>}{one.broke.extraCost !== undefined && `, ${cost(one.broke.extraCost)} more`}</span></span>
          )}
        </button>
      ))}
      {view.answers.length === 0 && <p className="dim">No answer on this path yet.</p>}
      {!view.partial && view.answers.length < asked && <p className="dim">The last {view.answers.length} of {plural(asked, "answer")}: their requests are long.</p>}
      {busy && whole && <Busy text={`Comparing whole requests of ${plural(path.length, "message")}`} />}
      {view.partial && !whole && <p className="dim">Compared from the last {COMPARED} messages of the path on. <Button label="Compare whole requests" small onClick={() => setWhole(true)} /></p>}
    </div>
  );
}
