/** Two branches, message by message, with the relation in the middle. */

import { useEffect, useMemo, useState } from "react";

import { get } from "./http";
import { Blocks, Output, pretty } from "./blocks";
import { cost, duration, plural, tokens } from "./format";
import { Icon } from "./icons";
import { Button, Glyph, speaker, toolIcon } from "./parts";
import { oneLine, visible } from "./plain";
import { setQuery, useRoute } from "./route";
import type { SessionStore } from "./store";
import type { Comparison, CompareRow, Span } from "./types";

export default function Compare({ store, path, onSelect }: { store: SessionStore; path: readonly string[]; onSelect: (entry: string) => void }) {
  const route = useRoute();
  const leaves = useMemo(() => store.tree.leaves(), [store, store.tree.version]); // eslint-disable-line
  const a = route.query.get("a") ?? path.at(-1);
  const other = leaves.filter((leaf) => leaf !== a).at(-1);
  const b = route.query.get("b") ?? other;
  const bKey = route.query.get("bkey") ?? store.key;
  const [found, setFound] = useState<Comparison>();
  const [problem, setProblem] = useState<string>();
  const [open, setOpen] = useState(false);
  useEffect(() => {
    if (a === undefined || b === undefined) return;
    const abort = new AbortController();
    setProblem(undefined);
    get<Comparison>("/api/compare", { a: store.key, aTo: a, b: bKey, bTo: b, limit: 500 }, abort.signal).then(setFound, (error: Error) => abort.signal.aborted || setProblem(error.message));
    return () => abort.abort();
  }, [store, a, b, bKey]);
  const name = (leaf: string) => store.tree.branchOf(leaf)?.name ?? store.tree.rows.get(leaf)?.text.slice(0, 48) ?? leaf;
  const pick = (side: "a" | "b", value: string | undefined) => (
    <select className="field" value={value} aria-label={`branch ${side.toUpperCase()}`} onChange={(event) => setQuery({ [side]: event.target.value })}>
      {leaves.map((leaf) => <option key={leaf} value={leaf}>{oneLine(name(leaf))}</option>)}
    </select>
  );
  if (leaves.length < 2 && bKey === store.key) return <div className="cmp"><p className="empty">This session has one path. Continue from an earlier message to make another, then compare them here.</p></div>;
  if (problem !== undefined) return <div className="cmp"><p className="err" role="alert"><Icon name="alert" />{problem}</p></div>;
  if (found === undefined) return <div className="cmp"><p className="empty">Comparing…</p></div>;
  const totals: [string, number | undefined, number | undefined, (value: number | undefined) => string, number?, number?][] = [
    ["messages", found.a.after, found.b.after, (value) => String(value ?? 0)],
    ["time", found.a.totals.ms, found.b.totals.ms, (value) => duration(value) ?? "unknown"],
    ["tokens written", found.a.totals.tokens.output, found.b.totals.tokens.output, tokens],
    ["cost", found.a.totals.cost, found.b.totals.cost, cost, found.a.totals.unpriced, found.b.totals.unpriced],
  ];
  return (
    <div className="cmp">
      <div className="g">
        <div className="left pick"><span className="letter">A</span>{pick("a", a)}<span className="dim">{found.a.models.join(", ")}</span></div>
        <div className="mid pick"><Button icon="swap" label="Swap" kind="bare" small onClick={() => setQuery({ a: b, b: a })} /></div>
        <div className="right pick"><span className="letter b">B</span>{pick("b", b)}<span className="dim">{found.b.models.join(", ")}</span></div>
        {totals.map(([label, left, right, text, moreLeft = 0, moreRight = 0]) => {
          const most = Math.max(left ?? 0, right ?? 0, 1e-9);
          return (
            <div key={label} className="met">
              <div className="l"><i className="bar" style={{ width: `${(252 * (left ?? 0)) / most}px` }} /><b className="val num">{left !== undefined && moreLeft > 0 && "≥ "}{text(left)}</b></div>
              <div className="mid">{label}</div>
              <div className="r"><i className="bar" style={{ width: `${(252 * (right ?? 0)) / most}px` }} /><b className="val num">{right !== undefined && moreRight > 0 && "≥ "}{text(right)}</b></div>
            </div>
          );
        })}
        {found.common > 0 && (
          <div className="common"><div className="l">{plural(found.common, "message")} alike from the beginning</div><div className="mid"><Icon name="same" /></div><div className="r">{found.fork !== undefined && <button type="button" className="btn small bare" onClick={() => onSelect(found.fork!.a)}>Where they part</button>}</div></div>
        )}
        {grouped(found.rows, open).map((item, at) =>
          "folded" in item ? (
            <div key={at} className="common"><div className="l" /><div className="mid"><button type="button" className="btn small bare" onClick={() => setOpen(true)}>{plural(item.folded, "message")} alike</button></div><div className="r" /></div>
          ) : (
            <Pair key={at} row={item} store={store} onSelect={onSelect} />
          ),
        )}
      </div>
    </div>
  );
}

function grouped(rows: readonly CompareRow[], open: boolean): (CompareRow | { folded: number })[] {
  if (open) return [...rows];
  const found: (CompareRow | { folded: number })[] = [];
  for (const row of rows) {
    const last = found.at(-1);
    if (row.kind !== "equal") found.push(row);
    else if (last !== undefined && "folded" in last) last.folded += 1;
    else found.push({ folded: 1 });
  }
  return found;
}

function Pair({ row, store, onSelect }: { row: CompareRow; store: SessionStore; onSelect: (entry: string) => void }) {
  const relation = { equal: ["same", "alike"], changed: ["differs", "differs"], onlyA: ["left", "only in A"], onlyB: ["right", "only in B"] }[row.kind]!;
  const later = (a?: number, b?: number, unit: (value: number) => string = String) => (a === undefined || b === undefined || a === b ? undefined : `${b > a ? "B" : "A"} ${unit(Math.abs(a - b))}`);
  const took = later(row.ms?.a, row.ms?.b, (value) => `took ${duration(value)} longer`);
  const paid = later(row.cost?.a, row.cost?.b, (value) => `cost ${cost(value)} more`);
  return (
    <div className="row">
      <div className="l">{row.a === undefined && row.kind !== "changed" ? <Gap /> : <Half row={row} side="a" store={store} onSelect={onSelect} />}</div>
      <div className="mid">
        <span className={`rel ${row.kind === "onlyA" ? "only" : row.kind === "onlyB" ? "only b" : ""}`}><Icon name={relation[0]!} />{relation[1]}</span>
        {row.same !== undefined && row.words !== undefined && <span>{row.same} of {row.words} words alike</span>}
        {took !== undefined && <span>{took}</span>}
        {paid !== undefined && <span>{paid}</span>}
      </div>
      <div className="r">{row.b === undefined && row.kind !== "changed" ? <Gap /> : <Half row={row} side="b" store={store} onSelect={onSelect} />}</div>
    </div>
  );
}

function Gap() {
  return <div className="none"><span>nothing here</span></div>;
}

function Half({ row, side, store, onSelect }: { row: CompareRow; side: "a" | "b"; store: SessionStore; onSelect: (entry: string) => void }) {
  const id = row[side];
  const stored = id === undefined ? undefined : store.tree.rows.get(id);
  const whole = row.kind !== "changed" && stored !== undefined;
  useEffect(() => { if (whole && id !== undefined) store.want([id]); }, [whole, id, store]);
  const entry = whole && id !== undefined ? store.entries.get(id) : undefined;
  return (
    <article>
      <div className="who">{stored === undefined ? <Glyph row={{ role: row.role }} /> : <Glyph row={stored} />}<b>{speaker(stored ?? { role: row.role })}</b>{id !== undefined && <button type="button" className="btn small bare push" onClick={() => onSelect(id)}>Open</button>}</div>
      {row.kind === "changed" && row.spans !== undefined ? <p className={row.role === "toolResult" ? "txt mono" : "txt"}><Words spans={row.spans} side={side} /></p> : entry !== undefined ? <div className="words">{row.role === "toolResult" ? <Output entry={entry} session={store.key} /> : <Blocks content={entry.message.content} session={store.key} entry={entry.id} />}</div> : whole && <p className="txt">{stored?.text}</p>}
      {row.kind === "changed" && row.calls?.filter((call) => call[side] !== undefined).map((call, at) => (
        <div key={at} className="calls">
          <div className="call"><Icon name={toolIcon(call.name)} /><span className="name">{oneLine(call.name)}</span></div>
          <dl className="kv">{call.args.map((arg) => <div key={arg.key} className="pair"><dt>{visible(arg.key)}</dt><dd className={arg.same ? "" : side === "a" ? "wa" : "wb"}>{arg.spans !== undefined ? <Words spans={arg.spans} side={side} /> : arg[side] === undefined ? "absent" : pretty(arg[side])}</dd></div>)}</dl>
        </div>
      ))}
      {row.other?.filter((one) => one.what !== "toolCallId").map((one) => <p key={one.what} className="d">{one.what}: {one[side] === undefined ? "absent" : pretty(one[side]).slice(0, 200)}</p>)}
    </article>
  );
}

function Words({ spans, side }: { spans: readonly Span[]; side: "a" | "b" }) {
  return <>{spans.filter((span) => span.in === "both" || span.in === side).map((span, at) => (span.in === "both" ? <span key={at}>{visible(span.text)}</span> : <span key={at} className={side === "a" ? "wa" : "wb"}>{visible(span.text)}</span>))}</>;
}
