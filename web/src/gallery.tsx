/** All sessions, what runs now, where they come from; and search over all of them. */

import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";

import { get, post, upload } from "./http";
import { sendKeptKeys } from "./early-keys";
import { bytes, clock, cost, day, plural, spent } from "./format";
import { Icon, Mark } from "./icons";
import { follow, nextLink } from "./links";
import { Button, Loading } from "./parts";
import { usePhone } from "./phone";
import { parted, removeSession, restoreSession, type Removed } from "./removing";
import { navigate } from "./route";
import { GalleryFilters, Hits, isFiltered, useSearch, type Filter } from "./search";
import { toggleTheme } from "./theme";
import type { IndexState, Me, Session } from "./types";

type Group = { source: string; group: string; count: number };
type Listing = { sessions: Session[]; total: number; next?: string; groups: Group[]; size: number; index: IndexState };
const PAGE = 200;
const FACETS: [string, string, string][] = [["", "All sessions", "home"], ["live", "Running", "record"], ["rated", "Rated", "star"], ["notes", "With notes", "note"], ["bad", "With problems", "alert"]];
const SOURCES: Record<string, string> = { own: "Own", client: "Canvases of programs", gateway: "Gateway", file: "Opened files, read-only", watch: "Watched, read-only" };
const DELETED = "deleted";
const DeletedSessions = lazy(() => import("./deleted"));
const TOAST = 10_000; // milliseconds

export function Gallery({ me }: { me: Me }) {
  const write = me.scope === "write";
  const [listing, setListing] = useState<Listing>();
  const [count, setCount] = useState(PAGE);
  const [group, setGroup] = useState<Group>();
  const facets: typeof FACETS = write ? [...FACETS, [DELETED, "Recently deleted", "trash"]] : FACETS;
  const linked = () => facets.find(([value]) => value === window.location.hash.slice(1))?.[0] ?? "";
  const [facet, setFacet] = useState(linked);
  useEffect(() => {
    const change = () => { setGroup(undefined); setFacet(linked()); };
    window.addEventListener("hashchange", change);
    return () => window.removeEventListener("hashchange", change);
  }, []);
  const phone = usePhone();
  const view = phone ? "transcript" : "canvas"; // on a phone reading comes first
  const [query, setQuery] = useState("");
  const [filter, setFilter] = useState<Filter>({});
  const [problem, setProblem] = useState<string>();
  const [toast, setToast] = useState<Removed | undefined>(parted);
  const [lost, setLost] = useState(false);
  const [epoch, setEpoch] = useState(0);
  const box = useRef<HTMLInputElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const { found, problem: unfound, more } = useSearch(query, filter, { source: group?.source });
  const searching = query.trim() !== "" || isFiltered(filter);
  const reload = useCallback(() => setEpoch((now) => now + 1), []);

  useEffect(() => {
    const abort = new AbortController();
    get<Listing>("/api/sessions", { limit: Math.min(count, 1000), source: group?.source, group: group?.group, filter: facet === DELETED ? undefined : facet || undefined }, abort.signal)
      .then(setListing, (error: Error) => abort.signal.aborted || setProblem(error.message));
    return () => abort.abort();
  }, [group, facet, epoch, count]);
  useEffect(() => {
    const source = new EventSource("/api/events");
    let timer: number | undefined;
    const soon = () => {
      window.clearTimeout(timer);
      timer = window.setTimeout(reload, 400);
    };
    source.onopen = () => setLost((before) => { if (before) soon(); return false; });
    source.onerror = () => setLost(true);
    for (const name of ["session", "gone", "sources", "index"]) source.addEventListener(name, soon);
    return () => { window.clearTimeout(timer); source.close(); };
  }, [reload]);
  useEffect(() => {
    if (toast === undefined) return;
    const timer = window.setTimeout(() => setToast(undefined), TOAST);
    return () => window.clearTimeout(timer);
  }, [toast]);

  const failed = (error: Error) => setProblem(error.message);
  const begin = () => void post<Session>("/api/sessions", {}).then((made) => navigate(`/s/${made.key}/transcript`), failed);
  const open = async (files: Iterable<File>) => {
    const opened: Session[] = [];
    setProblem(undefined);
    for (const file of files) {
      try {
        opened.push(...(await upload<{ sessions: Session[] }>(`/api/files?name=${encodeURIComponent(file.name)}`, file)).sessions);
      } catch (error) {
        setProblem(`${file.name}: ${(error as Error).message}`);
      }
    }
    if (opened.length === 1) return navigate(`/s/${opened[0]!.key}/${view}`);
    if (opened.length > 1) setToast({ text: `Opened ${plural(opened.length, "conversation")}.` });
    reload();
  };
  const remove = (one: Session) => {
    void removeSession(one).then((gone) => {
      setListing((before) => before && { ...before, sessions: before.sessions.filter((other) => other.key !== one.key) });
      setToast(gone);
    }, failed);
  };
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
      if (event.key === "Escape") { setQuery(""); box.current?.blur(); }
      if (event.metaKey || event.ctrlKey || event.altKey) return;
      if (!typing && event.key === "/") { event.preventDefault(); box.current?.focus(); }
      else if (!typing && event.key === "t") toggleTheme();
      else nextLink(event, searching ? "a.hit" : "a.row, a.lv, [data-restore] > .btn:first-child");
    };
    window.addEventListener("keydown", key);
    sendKeptKeys();
    return () => window.removeEventListener("keydown", key);
  }, [searching]);

  const days = useMemo(() => {
    const found = new Map<string, Session[]>();
    for (const one of listing?.sessions ?? []) {
      const name = day(one.modified);
      found.set(name, [...(found.get(name) ?? []), one]);
    }
    return [...found];
  }, [listing]);
  const running = (listing?.sessions ?? []).filter((one) => one.live !== undefined);
  const sources = useMemo(() => {
    const found = new Map<string, Group[]>();
    for (const one of listing?.groups ?? []) found.set(one.source, [...(found.get(one.source) ?? []), one]);
    return [...found];
  }, [listing]);
  const all = (listing?.groups ?? []).reduce((sum, one) => sum + one.count, 0);
  const chosen = (one: Group) => group?.group === one.group && group.source === one.source;
  const pick = (to: Group | undefined, facet = "") => {
    setGroup(to);
    setFacet(facet);
    setCount(PAGE);
    window.history.replaceState(null, "", facet === "" ? "/" : `#${facet}`); // a reload shows the same list
  };

  return (
    <div className="app gallery" onDragOver={(event) => event.preventDefault()} onDrop={(event) => { event.preventDefault(); void open(event.dataTransfer.files); }}>
      <header className="top">
        <div><Mark /><span className="word">Interlingua</span></div>
        <div />
        <div className="end">
          <span className="dim where">{window.location.host}</span>
          <Button icon="sun" label="Theme" kind="bare" hideLabel onClick={toggleTheme} keys="t" />
        </div>
      </header>
      {lost && <p className="lost" role="status"><Icon name="alert" className="s" />Connection lost; reconnecting. The list may be out of date.</p>}
      <div className="work">
        <nav className="nav" aria-label="sources">
          {facets.map(([value, label, icon]) => (
            <a key={value} href={`#${value}`} aria-current={(group === undefined && facet === value) || undefined} onClick={(event) => { event.preventDefault(); pick(undefined, value); }}><Icon name={icon} /><span>{label}</span><span>{value === "" ? all.toLocaleString() : ""}</span></a>
          ))}
          {sources.map(([source, groups]) => (
            <div key={source} className="groups">
              <h2>{SOURCES[source] ?? source}</h2>
              {groups.map((one) => (
                <a key={one.group} href={`#${one.group}`} aria-current={chosen(one) || undefined} onClick={(event) => { event.preventDefault(); pick(one); }}>
                  <Icon name={one.source === "watch" ? "watch" : one.source === "gateway" ? "globe" : one.source === "file" ? "folder" : "agent"} /><span className="cut">{one.group}</span><span>{one.count.toLocaleString()}</span>
                </a>
              ))}
            </div>
          ))}
          <p className="drophint"><Icon name="drop" /><span>Drop files of any format anywhere on this page</span></p>
        </nav>
        <main className="main">
          <h1 className="sr">Sessions</h1>
          <div className="bar">
            <label className="field big"><Icon name="search" /><input ref={box} value={query} onChange={(event) => setQuery(event.target.value)} placeholder={phone ? "Search everything" : "Search all conversations, tool calls and results"} aria-label="search" /><kbd>/</kbd></label>
            <Button icon="folder" label="Open" onClick={() => picker.current?.click()} />
            {write && <Button icon="plus" label="New" onClick={begin} />}
            <input ref={picker} type="file" multiple hidden aria-label="open files" onChange={(event) => { void open([...(event.target.files ?? [])]); event.target.value = ""; }} />
          </div>
          {phone && (
            <select className="field scope" aria-label="sessions shown" value={group === undefined ? facet : `${group.source}/${group.group}`} onChange={(event) => {
              const one = (listing?.groups ?? []).find((other) => `${other.source}/${other.group}` === event.target.value);
              pick(one, one === undefined ? event.target.value : "");
            }}>
              {facets.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
              {(listing?.groups ?? []).map((one) => <option key={`${one.source}/${one.group}`} value={`${one.source}/${one.group}`}>{`${one.group} (${one.count})`}</option>)}
            </select>
          )}
          <div className="facets">
            <GalleryFilters filter={filter} onChange={setFilter} />
            {listing !== undefined && !searching && facet !== DELETED && <span className="dim push num">{plural(listing.total, "session")} · {bytes(listing.size)}{listing.index.state === "indexing" && ` · indexing ${listing.index.done.toLocaleString()} of ${listing.index.total.toLocaleString()}`}</span>}
          </div>
          {(problem ?? unfound) !== undefined && <p className="err" role="alert"><Icon name="alert" /><span>{problem ?? unfound}</span><span className="push" /><Button icon="x" label="Close" kind="bare" small hideLabel onClick={() => setProblem(undefined)} /></p>}
          {searching ? (found === undefined ? <Loading /> : <Hits found={found} onMore={more} />) : facet === DELETED ? (
            <Suspense fallback={<Loading />}><DeletedSessions epoch={epoch} onDone={(text) => { setToast({ text }); reload(); }} onProblem={failed} /></Suspense>
          ) : (
            <>
              {running.length > 0 && (
                <div className="livegrid">
                  {running.slice(0, 6).map((one) => (
                    <a key={one.key} className={`card lv ${one.live?.state === "waiting" ? "asks" : ""}`} href={`/s/${one.key}/${view}`} onClick={follow}>
                      <span className="h"><i className="pulse" /><b className="cut" dir="auto">{one.title}</b><span className="push num">{cost(one.cost)}</span></span>
                      <Shape lanes={one.shape ?? []} />
                      <span className="now cut">{one.live?.state === "waiting" ? <><Icon name="lock" className="s" /> waiting for your approval</> : (one.live?.doing ?? one.live?.model ?? "running")}</span>
                    </a>
                  ))}
                </div>
              )}
              {days.length > 0 && <div className="cols" aria-hidden="true"><span>Shape</span><span>Title</span><span>Project</span><span>Model</span><span>Format</span><span className="r">Messages</span><span className="r">Paths</span><span className="r">Cost</span><span className="r">Last</span></div>}
              {days.map(([name, sessions]) => (
                <section key={name}>
                  <h2 className="day">{name}</h2>
                  {sessions.map((one) => (
                    <div key={one.key} className="line">
                      <a className="row" href={`/s/${one.key}/${view}`} onClick={follow} onKeyDown={(event) => { if (event.key === "Delete" && write && one.source !== "watch") remove(one); }}>
                        <Shape lanes={one.shape ?? []} />
                        <span className="t"><b className="cut" dir="auto" title={one.title}>{one.title}</b>{one.live !== undefined && <i className="pulse" />}{(one.problems ?? 0) > 0 && <span className="chip warn">{plural(one.problems ?? 0, "problem")}</span>}</span>
                        <span className="src cut dim" title={one.project ?? one.group}>{one.project ?? one.group}</span>
                        <span className="cut two">{one.models[0] ?? <span className="dim"><span className="phoneonly">model </span>unknown</span>}{one.models.length > 1 && <span className="dim"> +{one.models.length - 1}</span>}</span>
                        <span className="cut dim">{one.writtenAs}</span>
                        <span className="r num">{one.messages.toLocaleString()}</span><span className="r num">{one.branches}</span>
                        <span className="r num">{one.cost === undefined ? <span className="dim"><span className="phoneonly">cost </span>unknown</span> : spent(one.cost, one.unpriced ?? 0)}</span>
                        <span className="r num dim">{clock(one.modified)}</span>
                      </a>
                      {write && one.source !== "watch" && <Button icon={one.source === "file" ? "x" : "trash"} label={one.source === "file" ? `Close ${one.title}` : `Delete ${one.title}`} kind="bare" small hideLabel onClick={() => remove(one)} />}
                    </div>
                  ))}
                </section>
              ))}
              {listing?.next !== undefined && <p className="more">{count < 1000 ? <Button label={`Show ${Math.min(PAGE, listing.total - listing.sessions.length)} more of ${listing.total.toLocaleString()}`} onClick={() => setCount(count + PAGE)} /> : <span className="dim">The first 1,000 of {listing.total.toLocaleString()} sessions. Search, or choose a source, to see others.</span>}</p>}
              {listing === undefined && problem === undefined && <Loading />}
              {listing !== undefined && listing.sessions.length === 0 && (
                <div className="empty">
                  <p>{facet === "" && group === undefined ? "No conversations yet." : "No conversations here."}</p>
                  <p>Open or drop a file of any format, or start a new conversation.</p>
                  <p className="do"><Button icon="folder" label="Open files" onClick={() => picker.current?.click()} />{write && <Button icon="plus" label="New conversation" kind="go" onClick={begin} />}</p>
                </div>
              )}
            </>
          )}
        </main>
      </div>
      {toast !== undefined && <p className="toast float" role="status"><span>{toast.text}</span>{toast.restores !== undefined && <Button label="Undo" small onClick={() => void restoreSession(toast.restores!.key, toast.restores!.at).then(() => { setToast(undefined); reload(); }, failed)} />}<Button icon="x" label="Close" kind="bare" small hideLabel onClick={() => setToast(undefined)} /></p>}
    </div>
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
