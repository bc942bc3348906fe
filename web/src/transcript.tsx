/** The selected branch as a text to read, with figures in the margin; virtual, so that its length costs nothing. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import { Blocks, Linked, Raw, Unfolded, type Results } from "./blocks";
import { CopyButton } from "./copy";
import { clock, cost, day, duration, plural, tokens } from "./format";
import { Icon } from "./icons";
import { Notes, Rating } from "./notes";
import { beginning } from "./plain";
import { BranchChip, Button, Figures, Glyph, kindOf, speaker } from "./parts";
import type { SessionStore } from "./store";
import { isRecord } from "./tree";
import type { LiveNode, Row } from "./types";

/** Whether the page is being printed: then all of the path is drawn, unfolded. */
export const Printing = Unfolded;

/** How the sub-agents that a message started are named and opened. */
export type Agents = { title: (key: string) => string | undefined; open: (key: string) => void };

export type TranscriptProps = {
  store: SessionStore;
  version: number;
  path: readonly string[];
  selected?: string;
  block?: number; // of the selected message
  narrow?: boolean; // beside the canvas
  onSelect: (id: string, block?: number) => void;
  onContinue: (id: string) => void;
  onRaw: (id: string) => void;
  onNote?: (id: string | undefined) => void;
  noting?: string; // the message that a note is written for
  agents?: Agents;
  /** The address of a message or block; `null` where it has none that others could open. */
  link?: ((entry: string, block?: number) => string) | null;
  write?: boolean;
};

export function resultsOf(store: SessionStore, entry: string, path: ReadonlySet<string>): Results {
  return {
    row: (id, nth) => store.tree.result(entry, id, nth, path),
    entry: (id, nth) => {
      const result = store.tree.result(entry, id, nth, path)?.id;
      if (result === undefined) return undefined;
      store.want([result]);
      return store.entries.get(result);
    },
    state: (id) => ([...store.waiting.values()].some((one) => one.callId === id) ? { state: "waiting" } : store.progress.get(id)),
  };
}

/** What is read on a path: the rows with a place of their own, the records below each, and the place of every other row. */
type Reading = { rows: Row[]; records: Map<string, Row[]>; places: Map<string, string> };

/** A result whose call is on the path is drawn with it, and a record below the message that it follows. */
export function readingOf({ tree }: SessionStore, path: readonly string[]): Reading {
  const rows: Row[] = [];
  const records = new Map<string, Row[]>();
  const places = new Map<string, string>();
  const below = (row: Row) => {
    if (rows.length === 0) rows.push(row); // records before the first message stand together, too
    const place = rows.at(-1)!.id;
    const others = records.get(place);
    if (others === undefined) records.set(place, [row]);
    else others.push(row);
    places.set(row.id, place);
  };
  const on = new Set(path);
  const besides = (id: string): void => {
    for (const one of tree.beside.get(id) ?? []) {
      if (!on.has(one)) below(tree.rows.get(one)!);
      besides(one);
    }
  };
  besides("");
  for (const id of path) {
    const row = tree.rows.get(id);
    if (row === undefined) continue;
    if (isRecord(row)) below(row);
    else if (tree.callers.has(id)) places.set(id, tree.callers.get(id)!);
    else rows.push(row);
    besides(id);
  }
  return { rows, records, places };
}

export function Transcript(props: TranscriptProps) {
  const { store, path, selected, narrow } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const { rows, records, places } = useMemo(() => readingOf(store, path), [store, path, store.tree.version]); // eslint-disable-line
  const on = useMemo(() => new Set(path), [path]);
  const live = [...store.live.values()].filter((node) => node.parent === undefined || path.includes(node.parent));
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (at) => 64 + Math.min(rows[at]!.chars ?? rows[at]!.text.length, 4000) / (narrow ? 3 : 5) + 36 * (rows[at]!.calls?.length ?? 0),
    getItemKey: (at) => rows[at]!.id,
    overscan: 6,
  });
  const items = virtual.getVirtualItems();
  const printing = useContext(Printing);
  useEffect(() => {
    store.want(items.map((item) => rows[item.index]!.id));
  });
  // The page scrolls to what was selected elsewhere, and never by itself. Heights are guesses until a message is drawn and
  // its contents have come, so what was scrolled to is held in view until the reader scrolls.
  const shown = useRef<string>(undefined);
  const held = useRef<string>(undefined);
  useEffect(() => {
    if (shown.current !== selected) held.current = selected === undefined ? undefined : (places.get(selected) ?? selected);
    shown.current = selected;
    const box = scroller.current;
    const at = held.current === undefined ? -1 : rows.findIndex((row) => row.id === held.current);
    if (at < 0 || box === null) return;
    const there = items.find((item) => item.index === at);
    const whole = there !== undefined && there.start >= box.scrollTop && there.end <= box.scrollTop + box.clientHeight;
    const over = there !== undefined && there.start <= box.scrollTop && there.end >= box.scrollTop + box.clientHeight;
    if (!whole && !over) virtual.scrollToIndex(at, { align: there !== undefined && there.size > box.clientHeight ? "start" : "center" });
  });
  // A link to a block shows that block: once its contents are there, and until the reader scrolls.
  // A click selects a block, too, but the reader folds and unfolds it.
  const clicked = useRef<string>(undefined);
  const linked = clicked.current === `${selected} ${props.block}` ? undefined : linkedBlock(store, selected, props.block);
  const onSelect = (id: string, block?: number) => { clicked.current = `${id} ${block}`; props.onSelect(id, block); };
  useEffect(() => {
    if (linked === undefined || held.current !== linked.entry) return;
    scroller.current?.querySelector(`article[data-entry="${CSS.escape(linked.entry)}"] [data-block="${linked.block}"]`)?.scrollIntoView({ block: "nearest" });
  });
  const release = () => { held.current = undefined; };
  // Rows that come before what is being read leave it where it is.
  const anchor = useRef<{ id: string; offset: number }>(undefined);
  const first = rows[0]?.id;
  useLayoutEffect(() => {
    const box = scroller.current;
    const at = held.current !== undefined || anchor.current === undefined ? -1 : rows.findIndex((row) => row.id === anchor.current!.id);
    if (box === null || at <= 0) return;
    // The list must know at once: it corrects its own idea of the place when the heights of its elements come in.
    virtual.scrollOffset = box.scrollTop = (virtual.measurementsCache[at]?.start ?? 0) + anchor.current!.offset;
  }, [first]); // eslint-disable-line
  useEffect(() => {
    const top = scroller.current?.scrollTop ?? 0;
    const item = items.find((one) => one.end > top);
    anchor.current = item === undefined ? undefined : { id: rows[item.index]!.id, offset: top - item.start };
  });

  if (printing)
    return <div className="read"><div className="page"><Title store={store} />{rows.map((row, at) => <Turn key={row.id} row={row} records={records.get(row.id)} {...props} selected={undefined} on={on} first={at === 0} last={at === rows.length - 1} />)}</div></div>;
  return (
    <Linked.Provider value={linked}>
      <div className={narrow ? "flow" : "read"} ref={scroller} tabIndex={0} aria-label="transcript" onWheel={release} onPointerDown={release} onTouchMove={release} onKeyDown={release}>
        <div className={narrow ? "narrowpage" : "page"} style={{ height: virtual.getTotalSize() + (live.length > 0 ? 0 : 40) }}>
          {items.map((item) => {
            const row = rows[item.index]!;
            return (
              <div key={item.key} data-index={item.index} ref={virtual.measureElement} className="slot" style={{ transform: `translateY(${item.start}px)` }}>
                {item.index === 0 && !narrow && <Title store={store} />}
                <Turn row={row} records={records.get(row.id)} {...props} onSelect={onSelect} on={on} first={item.index === 0} last={item.index === rows.length - 1} />
              </div>
            );
          })}
        </div>
        {store.loaded && rows.length === 0 && live.length === 0 && <p className="empty">No messages yet.</p>}
        {live.map((node) => <LiveTurn key={node.node} node={node} store={store} />)}
      </div>
    </Linked.Provider>
  );
}

/** The message that an answer answers. */
function askedBy({ tree }: SessionStore, row: Row): string | undefined {
  let up = row.parent;
  while (up !== undefined && tree.rows.get(up)?.role === "assistant") up = tree.rows.get(up)?.parent;
  return tree.rows.get(up ?? "")?.role === "user" ? up : undefined;
}

/** The block that is selected: of a result, the call that it stands in. */
function linkedBlock(store: SessionStore, selected: string | undefined, block: number | undefined): { entry: string; block: number } | undefined {
  if (selected === undefined) return undefined;
  const caller = store.tree.callers.get(selected);
  if (caller === undefined) return block === undefined ? undefined : { entry: selected, block };
  const call = store.tree.rows.get(selected)?.call?.id;
  const at = store.entries.get(caller)?.message.content.findIndex((one) => one.type === "toolCall" && one.id === call) ?? -1;
  return at < 0 ? undefined : { entry: caller, block: at };
}

function Turn({ row, records, store, selected, block, on, onSelect, onContinue, onRaw, onNote, noting, write, narrow, agents, link = linkTo, first, last }: TranscriptProps & { row: Row; records?: readonly Row[]; on: ReadonlySet<string>; first: boolean; last: boolean }) {
  const results = resultsOf(store, row.id, on);
  const entry = store.entries.get(row.id);
  const siblings = store.tree.siblings(row.id);
  const here = selected !== undefined && (selected === row.id || store.tree.callers.get(selected) === row.id || records?.some((one) => one.id === selected) === true);
  const mine = kindOf(row) === "user";
  const asked = row.error === undefined ? undefined : askedBy(store, row);
  const below = records === undefined ? null : <Records rows={records} store={store} selected={selected} onRaw={onRaw} />;
  if (isRecord(row)) return <article className={`turn ${first ? "first" : ""} ${last ? "last" : ""}`} data-entry={row.id}><Glyph row={row} /><div className="main">{below}</div></article>;
  if (row.role === "compaction")
    return <><div className="compact"><Icon name="fold" /> Compacted here. Later answers read a summary of what comes before. <button type="button" className="btn small bare" onClick={() => onRaw(row.id)}>Raw</button></div>{below}</>;
  return (
    <>
      {siblings.length > 1 && (
        <ForkBar store={store} siblings={siblings} here={row.id} onSelect={onSelect} />
      )}
      <article className={`turn ${mine ? "mine" : ""} ${here ? "here" : ""} ${first ? "first" : ""} ${last ? "last" : ""}`} data-entry={row.id} onClick={(event) => onSelect(row.id, blockOf(event))}>
        <Glyph row={row} />
        <div className="main">
          <div className="who">
            <b>{speaker(row)}</b>
            {row.version !== undefined && <span className="dim">edited</span>}
            {row.rating !== undefined && row.rating !== 0 && <span className="chip line"><Icon name={row.rating > 0 ? "good" : "poor"} />{row.rating > 0 ? "good" : "poor"}</span>}
            {row.label !== undefined && <span className="chip"><Icon name="star" />{row.label}</span>}
            {narrow && <span className="figs">{[duration(row.ms), row.role === "assistant" && row.usage !== undefined ? cost(row.cost) : undefined].filter(Boolean).map((part) => <span key={part}>{part}</span>)}</span>}
            <span className="acts">
              {write && <Button icon="branch" label="Continue from here" kind="bare" small hideLabel onClick={() => onContinue(row.id)} keys="c" />}
              {write && row.role === "assistant" && <Rating store={store} row={row} />}
              {write && <Button icon="note" label="Note" kind="bare" small hideLabel onClick={() => onNote?.(row.id)} keys="N" />}
              {link !== null && <CopyButton icon="link" label={here && block !== undefined ? "Copy a link to this block" : "Copy a link to this message"} kind="bare" hideLabel text={() => link(row.id, here ? block : undefined)} />}
              <Button icon="wire" label="Raw JSON" kind="bare" small hideLabel onClick={() => onRaw(row.id)} keys="r" />
            </span>
          </div>
          {entry === undefined ? (
            <p className="txt" dir="auto">{row.text}{row.chars !== undefined && row.chars > row.text.length ? "…" : ""}</p>
          ) : (
            <div className="words txt">
              <Blocks content={entry.message.content} session={store.key} entry={row.id} results={results} />
              {row.error === undefined && row.bad === undefined && entry.message.content.every((block) => block.type === "text" && block.text === "") && <p className="dim">No content.</p>}
            </div>
          )}
          {agents !== undefined && row.spawned?.map((key) => (
            <button key={key} type="button" className="btn small subagent" onClick={(event) => { event.stopPropagation(); agents.open(key); }}><Icon name="agent" />Sub-agent{agents.title(key) === undefined ? "" : `: ${agents.title(key)!}`}</button>
          ))}
          {row.caller !== undefined && <button type="button" className="btn small subagent" onClick={(event) => { event.stopPropagation(); onSelect(row.caller!); }}><Icon name="up" />The call that started this sub-agent</button>}
          {store.tree.threads.get(row.id)?.map((first) => (
            <button key={first} type="button" className="btn small subagent" onClick={(event) => { event.stopPropagation(); onSelect(first); }}><Icon name="agent" />Sub-agent: {beginning(store.tree.rows.get(first)?.text ?? "", 60)}</button>
          ))}
          {entry !== undefined && <Notes store={store} entry={entry} write={write} writing={noting === row.id} onDone={() => onNote?.(undefined)} />}
          {row.error !== undefined && row.stop !== "aborted" && (
            <div className="err"><Icon name="alert" /><div><b>The answer failed</b>{row.error !== "" && <p>{row.error}</p>}{write && asked !== undefined && <span onClick={(event) => event.stopPropagation()}><Button label="Answer again" small onClick={() => onContinue(asked)} /></span>}</div></div>
          )}
          {row.bad !== undefined && <div className="err"><Icon name="alert" /><div><b>This line cannot be read</b><p>{row.bad}</p></div></div>}
          {row.stop === "length" && <p className="dim">Stopped at the output token limit.</p>}
          {row.stop === "aborted" && <p className="dim">Stopped before it was complete.</p>}
          {below}
        </div>
        {!narrow && <Margin row={row} />}
      </article>
    </>
  );
}

const SIBLINGS = 12; // of a wide fork: those around the one that is read

/** All siblings of a fork, in order of birth. */
function ForkBar({ store, siblings, here, onSelect }: { store: SessionStore; siblings: readonly string[]; here: string; onSelect: (id: string) => void }) {
  const [whole, setWhole] = useState(false);
  const first = whole || siblings.length <= SIBLINGS ? 0 : Math.max(0, Math.min(siblings.indexOf(here) - SIBLINGS / 2, siblings.length - SIBLINGS));
  const some = whole ? siblings : siblings.slice(first, first + SIBLINGS);
  const after = siblings.length - first - some.length;
  const named = useMemo(() => new Map(store.tree.branches.flatMap((branch) => store.tree.path(branch.head).map((id) => [id, branch.name] as const)).reverse()), [store, store.tree.version]); // eslint-disable-line
  return (
    <nav className="forkbar" aria-label="siblings">
      <i className="spur" /><i className="spot" />
      {first > 0 && <button type="button" className="btn small bare" onClick={() => setWhole(true)}>{first} earlier</button>}
      {some.map((id, at) => <BranchChip key={id} name={named.get(id) ?? `${first + at + 1} of ${siblings.length}`} current={id === here} onClick={() => onSelect(id)} />)}
      {after > 0 && <button type="button" className="btn small bare" onClick={() => setWhole(true)}>{after} more</button>}
    </nav>
  );
}

/** What a program recorded after a message: one quiet line, which opens to the records and their JSON. */
function Records({ rows, store, selected, onRaw }: { rows: readonly Row[]; store: SessionStore; selected?: string; onRaw: (id: string) => void }) {
  const printing = useContext(Printing);
  const chosen = rows.some((row) => row.id === selected);
  const [opened, setOpen] = useState<boolean>();
  const open = opened ?? (printing || (chosen && rows.length === 1));
  const roles = [...new Set(rows.map((row) => row.role))];
  useEffect(() => { if (open) store.want(rows.map((row) => row.id)); });
  return (
    <div className="records" onClick={(event) => event.stopPropagation()}>
      <button type="button" className={`quiet ${chosen ? "sel" : ""}`} aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="record" className="xs" /><span className="cut">{rows.length === 1 ? [rows[0]!.role, rows[0]!.text === rows[0]!.role ? "" : rows[0]!.text].filter(Boolean).join(": ") : `${plural(rows.length, "record")}: ${roles.join(", ")}`}</span><Icon name={open ? "down" : "right"} className="xs" />
      </button>
      {open && rows.map((row) => {
        const message = store.entries.get(row.id)?.message;
        if (message === undefined) return <p key={row.id} className="dim">{row.role}: {row.text}</p>;
        return (
          <div key={row.id} data-record={row.id}>
            <Raw title={row.text === "" || row.text === row.role ? row.role : `${row.role}: ${row.text}`} value={message.fields} where={{ session: store.key, entry: row.id, block: -1 }} icon="record" open={rows.length === 1} />
            {message.detailsMore !== undefined && <button type="button" className="btn small bare" onClick={() => onRaw(row.id)}>Show {message.detailsMore.toLocaleString()} more characters</button>}
          </div>
        );
      })}
    </div>
  );
}

function Title({ store }: { store: SessionStore }) {
  const { session, tree } = store;
  if (session === undefined) return null;
  const first = tree.rows.get(tree.roots[0] ?? "")?.at;
  return (
    <header className="title">
      <h1 dir="auto">{session.title}</h1>
      <Figures>{[session.writtenAs, first === undefined ? undefined : `${day(first)}, ${clock(first)}`, plural(Math.max(1, tree.paths), "path"), plural(store.loaded ? tree.messages : session.messages, "message"), session.cost === undefined ? "cost unknown" : `${cost(session.cost)}${(session.unpriced ?? 0) > 0 ? ` and ${plural(session.unpriced ?? 0, "answer")} unknown` : ""}`]}</Figures>
      {store.problems.length > 0 && <div className="err"><Icon name="alert" /><div><b>{plural(store.problems.length, "line")} could not be read</b>{store.problems.slice(0, 5).map((one, at) => <p key={at}>{one.line === undefined ? "" : `line ${one.line}: `}{one.message}</p>)}{store.problems.length > 5 && <p>{store.problems.length - 5} more: see the doctor (d)</p>}</div></div>}
    </header>
  );
}

function Margin({ row }: { row: Row }) {
  const usage = row.usage;
  const read = usage === undefined ? 0 : usage.input + usage.cacheRead + usage.cacheWrite;
  return (
    <aside className="margin">
      {(row.at ?? row.ms) !== undefined && <span>{[clock(row.at), duration(row.ms)].filter(Boolean).join(" · ")}</span>}
      {usage !== undefined && (
        <>
          <span><b>{tokens(read)}</b> in · <b>{tokens(usage.output)}</b> out</span>
          <span className="meter" title={`${usage.cacheRead} from cache, ${usage.input} fresh, ${usage.output} written`}>
            <i className="cached" style={{ width: `${share(usage.cacheRead, read + usage.output)}%` }} />
            <i className="fresh" style={{ width: `${share(usage.input + usage.cacheWrite, read + usage.output)}%` }} />
            <i className="out" style={{ width: `${share(usage.output, read + usage.output)}%` }} />
          </span>
          <span>{cost(row.cost)}</span>
        </>
      )}
      {row.role === "assistant" && usage === undefined && <span>tokens unknown</span>}
      {row.stop !== undefined && <span>ended: {STOPS[row.stop] ?? row.stop}</span>}
      {(row.notes ?? 0) > 0 && <span><Icon name="note" className="xs" /> {plural(row.notes ?? 0, "note")}</span>}
    </aside>
  );
}

const STOPS: Record<string, string> = { stop: "complete", toolUse: "tool use", length: "token limit", aborted: "stopped" };

function share(part: number, whole: number): number {
  return whole === 0 ? 0 : (100 * part) / whole;
}

function linkTo(entry: string, block?: number): string {
  const url = new URL(window.location.href);
  url.searchParams.set("at", entry);
  if (block === undefined) url.searchParams.delete("block");
  else url.searchParams.set("block", String(block));
  return url.href;
}

/** The number of the block that was clicked. */
function blockOf(event: React.MouseEvent): number | undefined {
  const found = (event.target as Element).closest("[data-block]")?.getAttribute("data-block");
  return found === null || found === undefined ? undefined : Number(found);
}

const NOWHERE: ReadonlySet<string> = new Set();

function LiveTurn({ node, store }: { node: LiveNode; store: SessionStore }) {
  const results = resultsOf(store, node.node, NOWHERE);
  return (
    <article className="turn live last">
      <Glyph row={{ role: "assistant" }} />
      <div className="main">
        <div className="who"><b>{node.model}</b><i className="pulse" /><span className="dim">answering</span></div>
        <div className="words txt">
          <Blocks content={node.content} session={store.key} entry={node.node} results={results} />
          <i className="caret" />
        </div>
      </div>
    </article>
  );
}
