/** All sessions, what runs now, where they come from; and search over all of them. */

import { useEffect, useMemo, useRef, useState } from "react";

import { get, upload } from "./http";
import { bytes, clock, cost, day, plural, spent } from "./format";
import { Icon, Mark } from "./icons";
import { Button } from "./parts";
import { usePhone } from "./phone";
import { navigate } from "./route";
import { toggleTheme } from "./theme";
import type { Hit, IndexState, Session } from "./types";

type Listing = { sessions: Session[]; total: number; next?: string; groups: { source: string; group: string; count: number }[]; size: number; index: IndexState };
const FACETS: [string, string][] = [["", "All"], ["live", "Running"], ["rated", "Rated"], ["notes", "With notes"], ["bad", "With problems"]];

export function Gallery() {
  const [listing, setListing] = useState<Listing>();
  const [group, setGroup] = useState<{ source: string; group: string }>();
  const [filter, setFilter] = useState("");
  const view = usePhone() ? "transcript" : "canvas"; // on a phone reading comes first
  const [query, setQuery] = useState("");
  const [hits, setHits] = useState<{ hits: Hit[]; total: number; ms: number }>();
  const [problem, setProblem] = useState<string>();
  const [epoch, setEpoch] = useState(0);
  const box = useRef<HTMLInputElement>(null);

  useEffect(() => {
    const abort = new AbortController();
    get<Listing>("/api/sessions", { limit: 200, source: group?.source, group: group?.group, filter: filter || undefined }, abort.signal)
      .then(setListing, (error: Error) => abort.signal.aborted || setProblem(error.message));
    return () => abort.abort();
  }, [group, filter, epoch]);
  useEffect(() => {
    const source = new EventSource("/api/events");
    let timer: number | undefined;
    const soon = () => {
      window.clearTimeout(timer);
      timer = window.setTimeout(() => setEpoch((now) => now + 1), 400);
    };
    for (const name of ["session", "gone", "sources", "index"]) source.addEventListener(name, soon);
    return () => source.close();
  }, []);
  useEffect(() => {
    if (query.trim() === "") return setHits(undefined);
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      get<{ hits: Hit[]; total: number; ms: number }>("/api/search", { q: query, limit: 50 }, abort.signal).then(setHits, (error: Error) => abort.signal.aborted || setProblem(error.message));
    }, 120);
    return () => { window.clearTimeout(timer); abort.abort(); };
  }, [query]);
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (event.key === "/" && document.activeElement?.tagName !== "INPUT") { event.preventDefault(); box.current?.focus(); }
      if (event.key === "Escape") { setQuery(""); box.current?.blur(); }
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, []);

  const drop = async (event: React.DragEvent) => {
    event.preventDefault();
    for (const file of event.dataTransfer.files) {
      try {
        const opened = await upload<{ sessions: Session[] }>(`/api/files?name=${encodeURIComponent(file.name)}`, file);
        const only = opened.sessions[0];
        if (opened.sessions.length === 1 && only !== undefined) navigate(`/s/${only.key}/${view}`);
        setEpoch((now) => now + 1);
      } catch (error) {
        setProblem(`${file.name}: ${(error as Error).message}`);
      }
    }
  };
  const days = useMemo(() => {
    const found = new Map<string, Session[]>();
    for (const one of listing?.sessions ?? []) {
      const name = day(one.modified);
      found.set(name, [...(found.get(name) ?? []), one]);
    }
    return [...found];
  }, [listing]);
  const running = (listing?.sessions ?? []).filter((one) => one.live !== undefined);

  return (
    <div className="app gallery" onDragOver={(event) => event.preventDefault()} onDrop={(event) => void drop(event)}>
      <header className="top">
        <div><Mark /><span className="word">Interlingua</span></div>
        <div />
        <div className="end"><Button icon="sun" label="Theme" kind="bare" hideLabel onClick={toggleTheme} /></div>
      </header>
      <div className="work">
        <nav className="nav" aria-label="sources">
          <a href="#all" aria-current={group === undefined || undefined} onClick={(event) => { event.preventDefault(); setGroup(undefined); }}><Icon name="home" /><span>All sessions</span><span>{listing?.total}</span></a>
          <h2>Sources</h2>
          {(listing?.groups ?? []).map((one) => (
            <a key={one.source + one.group} href={`#${one.group}`} aria-current={(group?.group === one.group && group.source === one.source) || undefined} onClick={(event) => { event.preventDefault(); setGroup(one); }}>
              <Icon name={one.source === "watch" ? "watch" : "folder"} /><span className="cut">{one.group}</span><span>{one.count}</span>
            </a>
          ))}
        </nav>
        <main className="main">
          <div className="head"><h1>Sessions</h1>{listing !== undefined && <span className="dim">{plural(listing.total, "session")} · {bytes(listing.size)}</span>}</div>
          <label className="field big"><Icon name="search" /><input ref={box} value={query} onChange={(event) => setQuery(event.target.value)} placeholder="Search all conversations, calls and results" aria-label="search" /><kbd>/</kbd></label>
          <div className="facets" role="group" aria-label="filter">
            {FACETS.map(([value, label]) => <button key={value} type="button" className="chip" aria-pressed={filter === value} onClick={() => setFilter(value)}>{label}</button>)}
            {listing?.index.state === "indexing" && <span className="dim push">Indexing {listing.index.done} of {listing.index.total}</span>}
          </div>
          {problem !== undefined && <p className="err" role="alert"><Icon name="alert" />{problem}</p>}
          {hits !== undefined ? <Hits found={hits} /> : (
            <>
              {running.length > 0 && (
                <div className="livegrid">
                  {running.slice(0, 6).map((one) => (
                    <a key={one.key} className="card lv" href={`/s/${one.key}/${view}`} onClick={follow}>
                      <span className="h"><i className="pulse" /><b className="cut">{one.title}</b><span className="push num">{cost(one.cost)}</span></span>
                      <span className="now">{one.live?.state === "waiting" ? "waiting for you" : (one.live?.doing ?? one.live?.model)}</span>
                      <Shape lanes={one.shape ?? []} />
                    </a>
                  ))}
                </div>
              )}
              <div className="cols" aria-hidden="true"><span /><span>Title</span><span>Source</span><span>Model</span><span>Written as</span><span className="r">Messages</span><span className="r">Paths</span><span className="r">Cost</span><span className="r">Time</span></div>
              {days.map(([name, sessions]) => (
                <section key={name}>
                  <h2 className="day">{name}</h2>
                  {sessions.map((one) => (
                    <a key={one.key} className="row" href={`/s/${one.key}/${view}`} onClick={follow}>
                      <Shape lanes={one.shape ?? []} />
                      <span className="t"><b className="cut">{one.title}</b>{one.live !== undefined && <i className="pulse" />}{(one.problems ?? 0) > 0 && <span className="chip warn">{plural(one.problems ?? 0, "problem")}</span>}</span>
                      <span className="src cut dim">{one.group}</span>
                      <span className="cut two">{one.models[0] ?? <span className="dim">unknown</span>}{one.models.length > 1 && <span className="dim"> +{one.models.length - 1}</span>}</span>
                      <span className="cut dim">{one.writtenAs}</span>
                      <span className="r num">{one.messages}</span><span className="r num">{one.branches}</span>
                      <span className="r num">{one.cost === undefined ? <span className="dim">unknown</span> : spent(one.cost, one.unpriced ?? 0)}</span>
                      <span className="r num dim">{clock(one.modified)}</span>
                    </a>
                  ))}
                </section>
              ))}
              {listing !== undefined && listing.sessions.length === 0 && (
                <p className="empty">No sessions here yet. Drop a file of any format on this page, or run <code>interlingua chat</code>.</p>
              )}
            </>
          )}
        </main>
      </div>
    </div>
  );
}

function follow(event: React.MouseEvent<HTMLAnchorElement>): void {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  navigate(event.currentTarget.getAttribute("href")!);
}

function Hits({ found }: { found: { hits: Hit[]; total: number; ms: number } }) {
  return (
    <section aria-label="found">
      <p className="dim">{plural(found.total, "place")} in {found.ms} ms</p>
      {found.hits.map((hit) => (
        <a key={`${hit.key}${hit.entry}${hit.block ?? ""}${hit.kind}`} className="hit" href={`/s/${hit.key}/transcript?at=${encodeURIComponent(hit.entry)}`} onClick={follow}>
          <span className={`role ${hit.role === "toolResult" ? "tool" : hit.role}`}><Icon name={hit.role === "toolResult" ? "exec" : hit.role} /></span>
          <span className="path"><b className="cut">{hit.title}</b><span className="dim">{[hit.kind, hit.tool, hit.model, hit.number === undefined ? undefined : `message ${hit.number}`].filter(Boolean).join(" · ")}</span></span>
          <span className="dim num">{hit.at === undefined ? "" : day(hit.at)}</span>
          <span className={`snip ${hit.kind === "result" || hit.kind === "arguments" ? "mono" : ""}`}>{hit.snippet.map((part, at) => (part.hit ? <mark key={at}>{part.text}</mark> : <span key={at}>{part.text}</span>))}</span>
        </a>
      ))}
    </section>
  );
}

const FILLS = ["m-user", "m-assistant", "m-tool", "m-tool"];

/** The tree as a sketch: a lane per branch, a block per message, failed ones in brick. */
export function Shape({ lanes }: { lanes: number[][] }) {
  return (
    <svg className="shape" width="132" height={lanes.length === 0 ? 5 : Math.min(4, lanes.length) * 6 - 1} aria-hidden="true">
      {lanes.slice(0, 4).map((lane, y) =>
        lane.slice(0, 24).map((code, x) => (
          <rect key={`${x}.${y}`} x={x * 5.5} y={y * 6} width="4.5" height="4.5" rx="1" className={code >= 8 ? "m-bad" : FILLS[code % 8]} />
        )),
      )}
    </svg>
  );
}
