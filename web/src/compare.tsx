/** Two branches, or two sessions, message by message, with the relation in the middle. */

import { useEffect, useMemo, useState } from "react";

import { get } from "./http";
import { Blocks, Output, pretty } from "./blocks";
import { Dialog } from "./dialog";
import { bytes, cost, duration, plural, tokens } from "./format";
import { Icon } from "./icons";
import { nextLink } from "./links";
import { Button, Figures, Glyph, Loading, speaker, toolIcon } from "./parts";
import { beginning, oneLine, visible } from "./plain";
import { setQuery, useRoute } from "./route";
import { SessionStore, useStore } from "./store";
import type { Comparison, CompareRow, Session, Span } from "./types";

const PAGE = 500; // aligned messages
const TEXT = 1200; // characters of a long text that are shown at first

export default function Compare({ store, path, onSelect }: { store: SessionStore; path: readonly string[]; onSelect: (entry: string, key: string) => void }) {
  const route = useRoute();
  const bKey = route.query.get("bkey") ?? store.key;
  const other = useOther(store, bKey);
  const leaves = useMemo(() => store.tree.leaves(), [store, store.tree.version]); // eslint-disable-line
  const others = useMemo(() => other.tree.leaves(), [other, other.tree.version]); // eslint-disable-line
  const a = route.query.get("a") ?? path.at(-1);
  const b = route.query.get("b") ?? (other === store ? leaves.filter((leaf) => leaf !== a).at(-1) : undefined); // none: the other session's head
  const [found, setFound] = useState<Comparison>();
  const [problem, setProblem] = useState<string>();
  const [count, setCount] = useState(PAGE);
  const [open, setOpen] = useState(false);
  const [choosing, setChoosing] = useState(false);
  const alone = other === store && leaves.length < 2;
  useEffect(() => {
    if (a === undefined || alone) return;
    const abort = new AbortController();
    setProblem(undefined);
    get<Comparison>("/api/compare", { a: store.key, aTo: a, b: bKey, bTo: b, limit: count }, abort.signal).then(setFound, (error: Error) => abort.signal.aborted || setProblem(error.message));
    return () => abort.abort();
  }, [store, a, b, bKey, count, alone]);
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const step = { n: 1, p: -1 }[event.key];
      if (step === undefined || event.metaKey || event.ctrlKey || event.altKey || (event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName))) return;
      const all = [...document.querySelectorAll<HTMLElement>('.cmp .row[data-differs] .mid')];
      const top = (document.querySelector(".cmp")?.getBoundingClientRect().top ?? 0) + 8;
      const next = step > 0 ? all.find((one) => one.getBoundingClientRect().top > top + 1) : all.findLast((one) => one.getBoundingClientRect().top < top - 1);
      next?.scrollIntoView({ block: "start" });
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, []);
  const name = (of: SessionStore, leaf: string) => of.tree.branchOf(leaf)?.name ?? of.tree.rows.get(leaf)?.text.slice(0, 48) ?? leaf;
  const pick = (side: "a" | "b", value: string | undefined) => {
    const [of, ends] = side === "a" ? [store, leaves] : [other, others];
    if (ends.length < 2 && other !== store) return null; // the session's title says it
    return (
      <select className="field" value={value} aria-label={`branch ${side.toUpperCase()}`} onChange={(event) => setQuery({ [side]: event.target.value })}>
        {value !== undefined && !ends.includes(value) && <option value={value}>{oneLine(name(of, value))}</option>}
        {ends.map((leaf) => <option key={leaf} value={leaf}>{oneLine(name(of, leaf)) || leaf}</option>)}
      </select>
    );
  };
  const chooser = choosing && <Chooser not={store.key} onClose={() => setChoosing(false)} onChoose={(key) => { setChoosing(false); setQuery({ bkey: key === store.key ? undefined : key, b: undefined }); }} />;
  const another = <Button icon="folder" label="Another session" kind="bare" small onClick={() => setChoosing(true)} />;
  if (alone) return <div className="cmp"><div className="empty"><p>This session has one path, so there is nothing to compare it with yet.</p><p>Continue from an earlier message to add a second path, or choose another session.</p><p className="do"><Button icon="folder" label="Compare with another session" onClick={() => setChoosing(true)} /></p></div>{chooser}</div>;
  if (problem !== undefined) return <div className="cmp"><p className="err" role="alert"><Icon name="alert" />{problem}{another}</p>{chooser}</div>;
  if (found === undefined) return <div className="cmp"><Loading text="Comparing…" /></div>;
  const read = (side: Comparison["a"]) => side.totals.tokens.input + side.totals.tokens.cacheRead + side.totals.tokens.cacheWrite;
  const totals: [string, number | undefined, number | undefined, (value: number | undefined) => string, number?, number?][] = [
    ["Messages", found.a.after, found.b.after, (value) => String(value ?? 0)],
    ["Elapsed", found.a.totals.ms, found.b.totals.ms, (value) => duration(value) ?? "unknown"],
    ["Tokens read", read(found.a) || undefined, read(found.b) || undefined, tokens],
    ["Tokens written", found.a.totals.tokens.output || undefined, found.b.totals.tokens.output || undefined, tokens],
    ["Cost", found.a.totals.cost, found.b.totals.cost, cost, found.a.totals.unpriced, found.b.totals.unpriced],
  ];
  const about = (side: Comparison["a"]) => <span className="dim cut">{[other === store ? undefined : side.title, ...side.models].filter(Boolean).join(" · ")}</span>;
  return (
    <div className="cmp">
      <div className="g">
        <div className="left pick"><span className="letter">A</span>{pick("a", a)}{about(found.a)}</div>
        <div className="mid pick">{other === store && <Button icon="swap" label="Swap" kind="bare" small onClick={() => setQuery({ a: b, b: a })} />}</div>
        <div className="right pick"><span className="letter b">B</span>{pick("b", b ?? found.b.to)}{about(found.b)}<span className="push" />{other === store ? another : <Button icon="x" label="This session again" kind="bare" small onClick={() => setQuery({ bkey: undefined, b: undefined })} />}</div>
        {totals.map(([label, left, right, text, moreLeft = 0, moreRight = 0]) => {
          const most = Math.max(left ?? 0, right ?? 0, 1e-9);
          const change = left !== undefined && right !== undefined && left > 0 && left !== right && moreLeft + moreRight === 0 ? `${right > left ? "+" : "−"}${Math.round((100 * Math.abs(right - left)) / left).toLocaleString()} %` : "";
          return (
            <div key={label} className="met">
              <div className="l"><i className="bar" style={{ width: `${(252 * (left ?? 0)) / most}px` }} /><b className="val num">{left !== undefined && moreLeft > 0 && "≥ "}{text(left)}</b></div>
              <div className="mid">{label}</div>
              <div className="r"><i className="bar" style={{ width: `${(252 * (right ?? 0)) / most}px` }} /><b className="val num">{right !== undefined && moreRight > 0 && "≥ "}{text(right)}</b><span className="dim num">{change}</span></div>
            </div>
          );
        })}
        {found.common > 0 && (
          <div className="common"><div className="l">{found.fork === undefined ? "" : `up to “${beginning(oneLine(store.tree.rows.get(found.fork.a)?.text ?? ""), 60)}”`}</div><div className="mid"><span className="rel"><Icon name="same" />{found.common} in common</span></div><div className="r">{found.fork !== undefined && <button type="button" className="btn small bare" onClick={() => onSelect(found.fork!.a, store.key)}>Open the fork</button>}</div></div>
        )}
        {found.common > 0 && found.rows.length > 0 && <div className="parting" aria-hidden="true"><i /><i className="mid" /><i className="b" /></div>}
        {grouped(found.rows, open).map((item, at) =>
          "folded" in item ? (
            <div key={at} className="common"><div className="l" /><div className="mid"><button type="button" className="btn small bare" onClick={() => setOpen(true)}>Show {plural(item.folded, "equal message")}</button></div><div className="r" /></div>
          ) : (
            <Pair key={at} row={item} stores={{ a: store, b: other }} onSelect={onSelect} />
          ),
        )}
        {found.rows.length === 0 && <p className="empty whole">The two paths are equal.</p>}
      </div>
      {found.total > found.rows.length && <p className="empty"><Button label={`Show ${Math.min(PAGE, found.total - found.rows.length).toLocaleString()} more of ${plural(found.total, "row")}`} disabled={count >= 1000} onClick={() => setCount(Math.min(1000, count + PAGE))} /></p>}
      {chooser}
    </div>
  );
}

/** The store of side B: this one, or that of another session, open as long as it is compared. */
function useOther(store: SessionStore, key: string): SessionStore {
  const other = useMemo(() => (key === store.key ? store : new SessionStore(key)), [store, key]);
  useEffect(() => {
    if (other === store) return;
    void other.open();
    return () => other.close();
  }, [other, store]);
  return useStore(other);
}

/** Choose a session by its title. */
function Chooser({ not, onClose, onChoose }: { not: string; onClose: () => void; onChoose: (key: string) => void }) {
  const [query, setQuery] = useState("");
  const [sessions, setSessions] = useState<Session[]>();
  useEffect(() => {
    const abort = new AbortController();
    get<{ sessions: Session[] }>("/api/sessions", { limit: 60, q: query.trim() || undefined }, abort.signal).then((answer) => setSessions(answer.sessions.filter((one) => one.key !== not)), () => undefined);
    return () => abort.abort();
  }, [query, not]);
  return (
    <Dialog title="Compare with another session" onClose={onClose}>
      <div onKeyDown={(event) => nextLink(event, ".dialogbody button.row")}>
        <input className="field big" value={query} onChange={(event) => setQuery(event.target.value)} placeholder="Title, project or model" aria-label="find a session" />
        <ul className="menu">
          {sessions?.map((one) => <li key={one.key}><button type="button" className="row" onClick={() => onChoose(one.key)}><b className="cut">{one.title}</b><span className="dim push num">{[one.models[0], plural(one.messages, "message")].filter(Boolean).join(" · ")}</span></button></li>)}
          {sessions?.length === 0 && <li className="dim">No session with this title.</li>}
        </ul>
      </div>
    </Dialog>
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

type Stores = { a: SessionStore; b: SessionStore };

function Pair({ row, stores, onSelect }: { row: CompareRow; stores: Stores; onSelect: (entry: string, key: string) => void }) {
  const relation = { equal: ["same", "equal"], changed: ["differs", "changed"], onlyA: ["left", "only in A"], onlyB: ["right", "only in B"] }[row.kind]!;
  const later = (a?: number, b?: number, unit: (value: number) => string = String) => (a === undefined || b === undefined || a === b ? undefined : `${b > a ? "B" : "A"} ${unit(Math.abs(a - b))}`);
  const took = later(row.ms?.a, row.ms?.b, (value) => `took ${duration(value)} longer`);
  const paid = later(row.cost?.a, row.cost?.b, (value) => `cost ${cost(value)} more`);
  return (
    <div className="row" data-differs={row.kind === "equal" ? undefined : true}>
      <div className="l">{row.kind === "onlyB" ? <Gap /> : <Half row={row} side="a" store={stores.a} onSelect={onSelect} />}</div>
      <div className="mid">
        <span className={`rel ${row.kind === "onlyA" ? "only" : row.kind === "onlyB" ? "only b" : ""}`}><Icon name={relation[0]!} />{relation[1]}</span>
        {row.same !== undefined && row.words !== undefined && row.words > 0 && <span>{row.same} of {plural(row.words, "word")} equal</span>}
        {took !== undefined && <span>{took}</span>}
        {paid !== undefined && <span>{paid}</span>}
      </div>
      <div className="r">{row.kind === "onlyA" ? <Gap /> : <Half row={row} side="b" store={stores.b} onSelect={onSelect} />}</div>
    </div>
  );
}

function Gap() {
  return <div className="none"><span>nothing here</span></div>;
}

function Half({ row, side, store, onSelect }: { row: CompareRow; side: "a" | "b"; store: SessionStore; onSelect: (entry: string, key: string) => void }) {
  const id = row[side];
  const stored = id === undefined ? undefined : store.tree.rows.get(id);
  const whole = row.kind !== "changed" && stored !== undefined;
  useEffect(() => { if (whole && id !== undefined) store.want([id]); }, [whole, id, store]);
  const entry = whole && id !== undefined ? store.entries.get(id) : undefined;
  const figures = [duration(row.ms?.[side] ?? stored?.ms), row.role !== "assistant" ? undefined : (row.cost?.[side] ?? stored?.cost) === undefined ? "cost unknown" : cost(row.cost?.[side] ?? stored?.cost)];
  return (
    <article>
      <div className="who">{stored === undefined ? <Glyph row={{ role: row.role }} /> : <Glyph row={stored} />}<b className="cut">{speaker(stored ?? { role: row.role })}</b><span className="push" /><Figures>{figures}</Figures>{id !== undefined && <button type="button" className="btn small bare" onClick={() => onSelect(id, store.key)}>Open</button>}</div>
      {row.spans !== undefined ? <Text spans={row.spans} side={side} kind={row.kind} mono={row.role === "toolResult"} /> : entry !== undefined ? <div className="words">{row.role === "toolResult" ? <Output entry={entry} session={store.key} /> : <Blocks content={entry.message.content} session={store.key} entry={entry.id} />}</div> : whole && <p className="txt">{stored?.text}</p>}
      {row.kind === "changed" && row.calls?.filter((call) => call[side] !== undefined).map((call, at) => (
        <div key={at} className="calls">
          <div className="call"><Icon name={toolIcon(call.name)} /><span className="name">{oneLine(call.name)}</span></div>
          <dl className="kv">{call.args.map((arg) => <div key={arg.key} className="pair"><dt>{visible(arg.key)}</dt><dd className={arg.same ? "" : side === "a" ? "wa" : "wb"}>{arg.spans !== undefined ? <Words spans={arg.spans} side={side} /> : arg[side] === undefined ? "absent" : pretty(arg[side])}</dd></div>)}</dl>
        </div>
      ))}
      {row.other?.filter((one) => one.what !== "toolCallId").map((one) => <p key={one.what} className="d">{one.what}: {one[side] === undefined ? "absent" : shortened(described(one[side]))}</p>)}
    </article>
  );
}

/** A value that differs, for people: the text of thinking, the type and size of media, else its JSON. */
function described(value: unknown): string {
  if (Array.isArray(value)) return value.map(described).join("; ");
  const fields = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  if (typeof fields["thinking"] === "string") return visible(fields["thinking"]);
  if (typeof fields["data"] === "string") return visible([fields["mimeType"], bytes((fields["data"].length * 3) / 4)].filter(Boolean).join(", "));
  return pretty(value);
}

function shortened(text: string): string {
  return text.length <= 200 ? text : `${text.slice(0, 200)}… ${(text.length - 200).toLocaleString()} more characters`;
}

/** The words of one side; what is long begins with its first characters, and says how many are missing. */
function Text({ spans, side, kind, mono }: { spans: readonly Span[]; side: "a" | "b"; kind: CompareRow["kind"]; mono: boolean }) {
  const [whole, setWhole] = useState(false);
  const mine = spans.filter((span) => span.in === "both" || span.in === side);
  const length = mine.reduce((sum, span) => sum + span.text.length, 0);
  const cut = !whole && length > 1.5 * TEXT;
  let left = TEXT;
  const shown = cut ? mine.flatMap((span) => { const text = span.text.slice(0, left); left -= text.length; return text === "" ? [] : [{ ...span, text }]; }) : mine;
  return (
    <p className={mono ? "txt mono" : "txt"} dir="auto">
      {kind === "changed" ? <Words spans={shown} side={side} /> : shown.map((span) => visible(span.text)).join("")}
      {cut && <>… <button type="button" className="btn small" onClick={() => setWhole(true)}>Show {(length - TEXT).toLocaleString()} more characters</button></>}
    </p>
  );
}

function Words({ spans, side }: { spans: readonly Span[]; side: "a" | "b" }) {
  return <>{spans.filter((span) => span.in === "both" || span.in === side).map((span, at) => (span.in === "both" ? <span key={at}>{visible(span.text)}</span> : <span key={at} className={side === "a" ? "wa" : "wb"}>{visible(span.text)}</span>))}</>;
}
