/** Stored, sent, and every loss between: the request as any dialect would send it, with a thread from each block to its place. */

import { useVirtualizer, type Virtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState, type RefObject } from "react";

import { CopyButton } from "./copy";
import { get } from "./http";
import { bytes, plural } from "./format";
import { Icon } from "./icons";
import { inParts } from "./long";
import { ModelField } from "./models";
import { BranchChip, Busy, Button, Glyph, Loss, LossMarks, speaker } from "./parts";
import { oneLine, visible } from "./plain";
import { setQuery, useRoute } from "./route";
import { summary, type Stored } from "./stored";
import type { SessionStore } from "./store";
import type { WireLine, WireLoss, WireView } from "./types";

const PARTS = ["request", "answer", "stream"] as const;
const LINE = 22;
const LAST = 200; // messages
const AROUND = 2; // lines beside a difference that are shown with it
type Sent = WireLine | { ghost: WireLoss } | { alike: number };
type Pane = Virtualizer<HTMLDivElement, Element>;

export default function Wire({ store, path, selected }: { store: SessionStore; path: readonly string[]; selected?: string }) {
  const route = useRoute();
  const [dialects, setDialects] = useState<{ wires: { id: string; label: string }[] }>({ wires: [] });
  const as = route.query.get("as") ?? undefined;
  const model = route.query.get("model") ?? undefined;
  const differences = route.query.has("differences");
  const part = PARTS.find((one) => one === route.query.get("part")) ?? "request";
  const to = selected ?? path.at(-1);
  const [view, setView] = useState<WireView>();
  const [problem, setProblem] = useState<string>();
  const [chosen, setChosen] = useState<number>();
  const [busy, setBusy] = useState(true);
  useEffect(() => {
    void get<{ wires: { id: string; label: string }[] }>("/api/dialects").then(setDialects, () => undefined);
  }, []);
  useEffect(() => {
    const abort = new AbortController();
    setProblem(undefined);
    setChosen(undefined);
    setBusy(true);
    inParts<WireView>(store, "wire", { to, as, model, part, kept: 1 }, LAST, abort.signal, setView)
      .catch((error: Error) => abort.signal.aborted || (setView(undefined), setProblem(error.message)))
      .finally(() => abort.signal.aborted || setBusy(false));
    return () => abort.abort();
  }, [store, to, as, model, part]);
  const losses = useMemo(() => (view?.losses ?? []).filter((loss) => loss.severity !== "record"), [view]);
  const sent = useMemo(() => {
    const lines = withGhosts(marked(view?.sent ?? [], losses), losses);
    return differences ? unlike(lines) : lines;
  }, [view, losses, differences]);
  const stored = useMemo(() => {
    const rows = summary(view?.stored ?? [], losses);
    return differences ? rows.filter((row, at) => ("head" in row ? beginsUnlike(rows, at + 1) : row.losses.length > 0)) : rows;
  }, [view, losses, differences]);

  const left = useRef<HTMLDivElement>(null);
  const right = useRef<HTMLDivElement>(null);
  const storedPane: Pane = useVirtualizer({ count: stored.length, getScrollElement: () => left.current, estimateSize: (at) => ("head" in stored[at]! ? 36 : 24), overscan: 12, paddingStart: 8, paddingEnd: 200 });
  const sentPane: Pane = useVirtualizer({ count: sent.length, getScrollElement: () => right.current, estimateSize: () => LINE, overscan: 20, paddingStart: 8, paddingEnd: 200 });
  const threads = useMemo(() => joined(stored, sent), [stored, sent]);

  // Where a block went follows what is sent as it scrolls, so that both ends of a thread are in view.
  const follow = useCallback(() => {
    const top = right.current?.scrollTop ?? 0;
    const first = threads.find((one) => 8 + one.sent * LINE >= top);
    const box = left.current;
    const place = first === undefined ? undefined : storedPane.getOffsetForIndex(first.stored, "start")?.[0];
    if (box !== null && first !== undefined && place !== undefined) box.scrollTop = top === 0 ? 0 : place - (8 + first.sent * LINE - top);
  }, [threads, storedPane]);
  useEffect(() => {
    if (chosen === undefined) return;
    const at = sent.findIndex((line) => ("ghost" in line ? line.ghost.n === chosen : "text" in line && line.loss?.includes(chosen)));
    if (at >= 0) sentPane.scrollToIndex(at, { align: "center" });
  }, [chosen, sent]); // eslint-disable-line
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || (event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName))) return;
      if ((event.key !== "n" && event.key !== "p") || losses.length === 0) return;
      const now = losses.findIndex((loss) => loss.n === chosen);
      setChosen(losses[(now + (event.key === "n" ? 1 : -1) + losses.length + (now < 0 && event.key === "p" ? 1 : 0)) % losses.length]!.n);
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [losses, chosen]);

  const branch = store.tree.branches.find((one) => path.includes(one.head));
  return (
    <div className="work wirework">
      <div className="bar">
        <span>As</span>
        <select className="field" value={as ?? view?.dialect ?? ""} onChange={(event) => setQuery({ as: event.target.value, model: undefined })} aria-label="dialect">{dialects.wires.map((one) => <option key={one.id} value={one.id}>{one.label}</option>)}</select>
        <label className="wide">for <ModelField label="model" value={model} placeholder={view?.model ?? "any model"} onChange={(name) => setQuery({ model: name, as: undefined })} /></label>
        <span className="wide">{store.loaded ? `at message ${store.tree.number(path, to)} of` : "on"}</span>
        <span className="wide"><BranchChip name={branch?.name ?? "this path"} current /></span>
        <span className="seg" role="group" aria-label="part">{PARTS.map((one) => <button key={one} type="button" aria-pressed={part === one} onClick={() => setQuery({ part: one === "request" ? undefined : one })}>{one.charAt(0).toUpperCase() + one.slice(1)}</button>)}</span>
        <span className="push" />
        <LossMarks dropped={counted(losses, "dropped")} weakened={counted(losses, "weakened")} />
        {view !== undefined && view.hidden > 0 && <span className="dim wide"><Icon name="record" className="xs" /> {plural(view.hidden, "record")}, hidden</span>}
        {view?.curl !== undefined && <CopyButton icon="copy" label="Copy as curl" text={() => view.curl!} />}
      </div>
      {problem !== undefined && <p className="err" role="alert"><Icon name="alert" />{problem}</p>}
      {busy && <Busy key={`${to} ${as} ${model} ${part}`} text={view?.partial ? "The end is shown; encoding the whole request" : "Encoding the request"} />}
      <div className="heads">
        <div><b>Interlingua</b><span className="dim">what is stored</span></div>
        <div className="between dim">adapt, encode</div>
        <div><b>{view?.dialect ?? as}</b><span className="dim">what is sent{view === undefined ? "" : `, ${bytes(view.bytes)}${view.mediaBytes > 0 ? ` and ${bytes(view.mediaBytes)} of media` : ""}`}</span><span className="push" /><label className="opt"><input type="checkbox" checked={differences} onChange={(event) => setQuery({ differences: event.target.checked ? "1" : undefined })} />differences only</label></div>
        <div><b>{view === undefined ? "Losses" : plural(counted(losses), "loss", "losses")}{view?.partial ? " so far" : ""}</b><span className="dim push">n, p</span></div>
      </div>
      <div className="cols">
        <StoredPane lines={stored} pane={storedPane} box={left} store={store} chosen={chosen} onChoose={setChosen} />
        <Threads threads={threads} stored={storedPane} sent={sentPane} chosen={chosen} onChoose={setChosen} />
        <SentPane lines={sent} pane={sentPane} box={right} losses={losses} chosen={chosen} onChoose={setChosen} onScroll={follow} />
        <section className="whylist" aria-label="losses">
          {view?.notes?.map((note) => <p key={note} className="dim">{note}{view.partial ? "…" : "."}</p>)}
          {losses.length === 0 && view !== undefined && !view.partial && <p className="empty"><Icon name="check" /> Nothing is lost on the way to this wire.</p>}
          {losses.map((loss) => <Why key={loss.n} loss={loss} open={chosen === loss.n} onChoose={setChosen} />)}
          {view?.back && <p className="back">Back to {view.dialect} nothing is lost: the request comes back value for value.</p>}
        </section>
      </div>
    </div>
  );
}

/** How many losses there are: one may stand for several in messages that are not shown. */
function counted(losses: readonly WireLoss[], severity?: string): number {
  return losses.reduce((sum, loss) => sum + (severity === undefined || loss.severity === severity ? (loss.times ?? 1) : 0), 0);
}

/** What is said otherwise is marked on the first line that says it, where the server named none. */
function marked(lines: readonly WireLine[], losses: readonly WireLoss[]): WireLine[] {
  const found = [...lines];
  const known = new Set(lines.flatMap((line) => line.loss ?? []));
  for (const loss of losses) {
    if (loss.severity !== "weakened" || known.has(loss.n)) continue;
    const at = found.findIndex((line) => line.from?.startsWith(loss.path) && !/^[[\]{}]|[[{]$/.test(line.text));
    if (at >= 0) found[at] = { ...found[at]!, loss: [...(found[at]!.loss ?? []), loss.n] };
  }
  return found;
}

/** What is not sent stands where it would have been. */
function withGhosts(lines: readonly WireLine[], losses: readonly WireLoss[]): Sent[] {
  const ghosts = new Map<number, WireLoss[]>();
  for (const loss of losses) if (loss.ghost !== undefined) ghosts.set(Number(loss.ghost), [...(ghosts.get(Number(loss.ghost)) ?? []), loss]);
  return [...lines.flatMap((line, at) => [...(ghosts.get(at) ?? []).map((ghost) => ({ ghost })), line]), ...(ghosts.get(lines.length) ?? []).map((ghost) => ({ ghost }))];
}

/** Only what is not sent as it is stored, each with the lines beside it; how many are left out between is said. */
function unlike(lines: readonly Sent[]): Sent[] {
  const kept = new Set<number>();
  lines.forEach((line, at) => {
    if ("ghost" in line || ("text" in line && (line.loss?.length ?? 0) > 0)) for (let near = at - AROUND; near <= at + AROUND; near += 1) kept.add(near);
  });
  const found: Sent[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const last = found.at(-1);
    if (kept.has(at)) found.push(lines[at]!);
    else if (last !== undefined && "alike" in last) last.alike += 1;
    else found.push({ alike: 1 });
  }
  return found;
}

/** Whether something below a heading is lost. */
function beginsUnlike(rows: readonly Stored[], from: number): boolean {
  for (let at = from; at < rows.length && !("head" in rows[at]!); at += 1) if ((rows[at] as { losses: WireLoss[] }).losses.length > 0) return true;
  return false;
}

type Thread = { stored: number; sent: number; loss?: WireLoss };

/** A thread for each stored row: to the line that says it, to the line that says it otherwise, or to its ghost. */
function joined(stored: readonly Stored[], sent: readonly Sent[]): Thread[] {
  const said = new Map<string, number>();
  const begun = new Map<string, number>(); // where no line says it alone, the line on which it begins
  const ghosts = new Map<number, number>();
  const weakened = new Map<number, number>();
  sent.forEach((line, at) => {
    if ("alike" in line) return;
    if ("ghost" in line) return ghosts.set(line.ghost.n, at);
    for (const n of line.loss ?? []) if (!weakened.has(n)) weakened.set(n, at);
    if (line.from !== undefined && !begun.has(line.from)) begun.set(line.from, at);
    if (line.from !== undefined && !said.has(line.from) && !/^[[\]{}]|[[{]$/.test(line.text)) said.set(line.from, at);
  });
  return stored.flatMap((row, at): Thread[] => {
    if ("head" in row) return [];
    const lost = row.losses.flatMap((loss) => {
      const end = ghosts.get(loss.n) ?? weakened.get(loss.n) ?? said.get(row.path) ?? begun.get(row.path);
      return end === undefined ? [] : [{ stored: at, sent: end, loss }];
    });
    const end = said.get(row.path) ?? begun.get(row.path);
    return lost.length > 0 ? lost : end === undefined ? [] : [{ stored: at, sent: end }];
  });
}

function Threads({ threads, stored, sent, chosen, onChoose }: { threads: readonly Thread[]; stored: Pane; sent: Pane; chosen?: number; onChoose: (n: number) => void }) {
  const places = (pane: Pane) => new Map(pane.getVirtualItems().map((item) => [item.index, item.start + item.size / 2 - (pane.scrollOffset ?? 0)]));
  const [from, to] = [places(stored), places(sent)];
  return (
    <svg className="threads" aria-hidden="true">
      {threads.map(({ stored: a, sent: b, loss }) => {
        const [y1, y2] = [from.get(a), to.get(b)];
        if (y1 === undefined || y2 === undefined) return null;
        const [middle, kind] = [(y1 + y2) / 2, loss?.severity ?? "kept"];
        const half = `M0 ${y1} C23 ${y1} 34 ${middle} 46 ${middle}`;
        return (
          <g key={`${a} ${b} ${loss?.n ?? ""}`} className={`${kind} ${loss !== undefined && loss.n === chosen ? "sel" : ""}`} onClick={() => loss !== undefined && onChoose(loss.n)}>
            {kind === "dropped" ? <><path d={half} /><path className="dots" d={`M46 ${middle} C58 ${middle} 69 ${y2} 92 ${y2}`} /></> : <path d={`M0 ${y1} C46 ${y1} 46 ${y2} 92 ${y2}`} />}
            {kind === "dropped" && <><rect x={41} y={middle - 5} width={10} height={10} rx={2} /><path d={`M43 ${middle + 3}l6-6`} /></>}
            {kind === "weakened" && <><circle cx={46} cy={middle} r={5} /><path className="fill" d={`M46 ${middle - 5}a5 5 0 0 0 0 10z`} /></>}
          </g>
        );
      })}
    </svg>
  );
}

function StoredPane({ lines, pane, box, store, chosen, onChoose }: { lines: readonly Stored[]; pane: Pane; box: RefObject<HTMLDivElement | null>; store: SessionStore; chosen?: number; onChoose: (n: number) => void }) {
  return (
    <div className="storedpane" ref={box} tabIndex={0} aria-label="what is stored">
      <div style={{ height: pane.getTotalSize(), position: "relative" }}>
        {pane.getVirtualItems().map((item) => {
          const line = lines[item.index]!;
          const style = { position: "absolute" as const, top: item.start, left: 0, right: 0, height: item.size };
          if ("head" in line) {
            const row = line.entry === undefined ? undefined : store.tree.rows.get(line.entry);
            return <div key={item.key} className="sg" style={style}><Glyph row={row ?? { role: "system" }} /><b className="cut">{row === undefined ? line.head : speaker(row)}</b><code>{line.path}</code></div>;
          }
          const loss = line.losses[0];
          const mark = <>{line.losses.map((one) => <Icon key={one.n} name={one.severity} className={`s loss ${one.severity}`} />)}</>;
          const text = <><span className="dim">{line.kind}</span><span className={`cut ${line.mono ? "mono" : ""}`}>{oneLine(line.text)}</span>{mark}</>;
          const state = `srow ${line.losses.some((one) => one.n === chosen) ? "sel" : ""}`;
          return loss === undefined ? <div key={item.key} className={state} style={style}>{text}</div> : <button key={item.key} type="button" className={state} style={style} onClick={() => onChoose(loss.n)}>{text}</button>;
        })}
      </div>
    </div>
  );
}

/** One line of JSON: keys, numbers, strings. */
function Json({ text }: { text: string }) {
  const key = /^"(?:[^"\\]|\\.)*"(?=: )/.exec(text)?.[0];
  const rest = key === undefined ? text : text.slice(key.length + 2);
  const kind = /^-?[\d.]|^(true|false|null)/.test(rest) ? "nu" : rest.startsWith('"') ? "st" : "pn";
  return <>{key !== undefined && <><span className="k">{visible(key)}</span><span className="pn">: </span></>}<span className={kind}>{visible(rest)}</span></>;
}

function SentPane({ lines, pane, box, losses, chosen, onChoose, onScroll }: { lines: readonly Sent[]; pane: Pane; box: RefObject<HTMLDivElement | null>; losses: readonly WireLoss[]; chosen?: number; onChoose: (n: number) => void; onScroll: () => void }) {
  const byNumber = useMemo(() => new Map(losses.map((loss) => [loss.n, loss])), [losses]);
  const numbers = useMemo(() => { let n = 0; return lines.map((line) => ("ghost" in line ? undefined : "alike" in line ? void (n += line.alike) : (n += 1))); }, [lines]);
  return (
    <div className="json" ref={box} tabIndex={0} aria-label="what is sent" onScroll={onScroll}>
      <div style={{ height: pane.getTotalSize(), position: "relative" }}>
        {pane.getVirtualItems().map((item) => {
          const line = lines[item.index]!;
          const style = { position: "absolute" as const, top: item.start, left: 0, right: 0 };
          if ("alike" in line) return <div key={item.key} className="ln alike dim" style={style}><span className="no" /><span>{plural(line.alike, "unchanged line")}</span></div>;
          if ("ghost" in line)
            return <div key={item.key} className={`ln ghost ${chosen === line.ghost.n ? "sel" : ""}`} style={style} onClick={() => onChoose(line.ghost.n)}><span className="no" /><code>{line.ghost.what} is not sent</code><Loss severity={line.ghost.severity}>{line.ghost.n}</Loss></div>;
          const loss = line.loss?.map((n) => byNumber.get(n)).find((one) => one !== undefined);
          return (
            <div key={item.key} className={`ln ${loss?.severity === "weakened" ? "wk" : ""} ${loss !== undefined && chosen === loss.n ? "sel" : ""}`} style={style} onClick={() => loss !== undefined && onChoose(loss.n)}>
              <span className="no">{numbers[item.index]}</span><code style={{ paddingLeft: `${line.depth * 14}px` }}><Json text={line.text} /></code>
              {line.cut !== undefined && <span className="blob">{line.cut.toLocaleString()} more</span>}
              {loss !== undefined && <Loss severity={loss.severity}>{loss.n}</Loss>}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Why({ loss, open, onChoose }: { loss: WireLoss; open: boolean; onChoose: (n: number) => void }) {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => { if (open) element.current?.scrollIntoView({ block: "nearest" }); }, [open]);
  const other = loss.keptBy?.[0];
  return (
    <div ref={element} className={`w ${open ? "open" : ""}`}>
      <button type="button" onClick={() => onChoose(loss.n)} aria-expanded={open}>
        <span className={`n ${loss.severity}`}>{loss.n}</span><Loss severity={loss.severity}>{loss.severity}: {visible(loss.what)}</Loss>
        <code className="p cut">{visible(loss.path)}</code><span className="y">{visible(loss.why)}{(loss.times ?? 1) > 1 && `; ${loss.times} times in messages that are not shown`}</span>
      </button>
      {open && loss.keptBy !== undefined && <p className="y dim">{loss.keptBy.length === 0 ? "No other wire keeps it." : `Kept by ${loss.keptBy.join(", ")}.`}</p>}
      {open && other !== undefined && <Button label={`Show as ${other}`} small onClick={() => setQuery({ as: other, model: undefined })} />}
    </div>
  );
}
