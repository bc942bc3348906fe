/** One session: four views of one selection, and the layers over them (continue, doctor, context, find, raw). */

import { lazy, Suspense, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import { post } from "./http";
import { CanvasView } from "./canvas";
import { Composer } from "./continue";
import { Doctor, useDoctor } from "./doctor";
import { sendKeptKeys } from "./early-keys";
import { clock, cost, duration, plural, spent, tokens } from "./format";
import { Icon, Mark } from "./icons";
import { hasSingleKeys, KeySheet } from "./keys";
import { Outline } from "./outline";
import type { Action } from "./palette";
import { BranchChip, Button, Figures } from "./parts";
import { usePhone } from "./phone";
import { currentRoute, navigate, setQuery, useRoute, type View } from "./route";
import { Ruler } from "./ruler";
import { storedFolds, type Folds } from "./scene";
import { Splitter, usePanelWidth } from "./splitter";
import { part, removeSession, restoreSession } from "./removing";
import { SessionStore, useStore } from "./store";
import type { Run, Session } from "./types";
import { toggleTheme } from "./theme";
import { Printing, Transcript } from "./transcript";

const Compare = lazy(() => import("./compare"));
const Wire = lazy(() => import("./wire"));
const Export = lazy(() => import("./export-dialog"));
const Raw = lazy(() => import("./raw"));
const NameBranch = lazy(() => import("./name-branch"));
const Merge = lazy(() => import("./merge"));
const Find = lazy(() => import("./find"));
const Palette = lazy(() => import("./palette"));
const Rename = lazy(() => import("./rename"));

const VIEWS: [View, string, string][] = [["canvas", "Canvas", "canvas"], ["transcript", "Transcript", "transcript"], ["compare", "Compare", "compare"], ["wire", "Wire", "wire"]];
// On a phone reading comes first.
const PHONE: [View, string, string][] = [["transcript", "Read", "transcript"], ["canvas", "Tree", "canvas"], ["compare", "Compare", "compare"], ["wire", "Wire", "wire"]];
type Layer = "continue" | "edit" | "branch" | "doctor" | "context" | "find" | "raw" | "keys" | "export" | "outline" | "merge" | "commands" | "rename";
const AGENTS = { title: () => undefined, open: (key: string) => navigate(`/s/${key}/transcript`) };
const MODAL: ReadonlySet<Layer> = new Set(["find", "branch", "raw", "export", "keys", "merge", "commands", "rename"]);

const isActive = (run: Run) => run.state === "running" || run.state === "waiting" || run.state === "starting";

export function SessionPage({ id, write }: { id: string; write: boolean }) {
  const store = useMemo(() => new SessionStore(id), [id]);
  useEffect(() => {
    const { view, query } = currentRoute();
    void store.open({ reading: view === "transcript", at: query.get("at") ?? undefined });
    return () => store.close();
  }, [store]);
  return <Opened store={useStore(store)} write={write} />;
}

function Opened({ store, write }: { store: SessionStore; write: boolean }) {
  const route = useRoute();
  const phone = usePhone();
  const { tree } = store;
  const [layer, setLayer] = useState<Layer>();
  const [rawOf, setRawOf] = useState<string>();
  const [noting, setNoting] = useState<string>();
  const [printing, setPrinting] = useState(false);
  const [asking, setAsking] = useState(false);
  const [panel, setPanel] = usePanelWidth();
  const [folds, setFolds] = useState<Folds>(() => storedFolds(store.view));
  const at = route.query.get("at") ?? undefined;
  const to = route.query.get("to") ?? undefined;
  const block = route.query.has("block") ? Number(route.query.get("block")) : undefined;

  // Without a choice the selection is what was last when the page was opened: what is written later does not move it.
  const opened = useRef<string>(undefined);
  const known = store.loaded || tree.rows.has(tree.head ?? "");
  if (known && (opened.current === undefined || !tree.rows.has(opened.current))) opened.current = (tree.head === undefined ? undefined : tree.anchor(tree.head)) ?? tree.head ?? [...tree.rows.keys()].at(-1);
  const selected = at !== undefined && tree.rows.has(at) ? at : opened.current;
  // The path that is read stays when the head moves to another one: answers of several models come as siblings.
  const read = useRef<{ path: readonly string[]; to?: string }>(undefined);
  const path = useMemo(() => {
    const before = read.current;
    const same = before !== undefined && before.to === to && selected !== undefined && before.path.includes(selected);
    const found = tree.through(selected, same ? before.path.at(-1) : to);
    read.current = { path: found, to };
    return found;
  }, [store, tree.version, selected, to]); // eslint-disable-line

  const steps = useMemo(() => path.filter((id) => tree.isStep(id)), [path, tree]);
  const here = useMemo(() => {
    const place = new Map(path.map((id, at) => [id, at]));
    const now = place.get((selected === undefined ? undefined : tree.anchor(selected)) ?? "") ?? -1;
    return steps.findLastIndex((id) => place.get(id)! <= now);
  }, [path, steps, selected]);
  const first = useRef(false); // to be selected when all rows are read: before, the first of them is not the first message
  const select = useCallback(
    (entry: string, block?: number) => {
      first.current = false;
      if (store.sent.delete(entry)) store.changed();
      const row = tree.rows.get(entry);
      if (row?.parent !== undefined) tree.visited.set(row.parent, entry);
      setQuery({ at: entry, block: block === undefined ? undefined : String(block) }, true);
    },
    [tree],
  );
  // What was just asked has been answered: writing goes on after the answer, though the selection stays at the question.
  const answered = selected === undefined || !store.sent.has(selected) || [...store.runs.values()].some(isActive) ? undefined : path.findLast((id) => tree.isStep(id));
  const onward = tree.rows.get(answered ?? "")?.role === "assistant" ? answered : selected;
  const goOn = () => {
    if (onward !== undefined && onward !== selected) select(onward);
    setLayer("continue");
  };
  useLayoutEffect(() => setFolds(storedFolds(store.view)), [store, store.view]);
  const refold = useCallback(
    (change: (before: Folds) => Partial<Folds>) => setFolds((before) => {
      const after = { ...before, ...change(before) };
      if (write) void post(`/api/sessions/${store.key}/view`, { folded: [...after.folded], runs: [...after.runs], loops: after.loops }, "PUT").catch(() => undefined);
      return after;
    }),
    [store, write],
  );
  const fold = (what: "folded" | "runs") => {
    if (selected === undefined) return;
    refold((before) => {
      const after = new Set(before[what]);
      if (!after.delete(selected)) after.add(selected);
      return { [what]: after };
    });
  };
  const { view: doctor, problem: undiagnosed } = useDoctor(store, path.at(-1), layer === "doctor");
  const findings = useMemo(() => {
    const found = new Map<string, number>();
    for (const one of layer === "doctor" ? (doctor?.findings ?? []) : []) if (one.entry !== undefined) found.set(one.entry, (found.get(one.entry) ?? 0) + 1);
    return found;
  }, [doctor, layer]);
  // A new conversation begins with writing.
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current || !store.loaded) return;
    begun.current = true;
    if (write && tree.rows.size === 0 && store.live.size === 0) setLayer((now) => now ?? "continue");
  }, [store, store.loaded, write, tree]);
  const settled = useSettled(tree.rows.size > 0);
  const go = useCallback((view: View) => navigate(`/s/${store.key}/${view}${window.location.search}`), [store]);
  const raw = useCallback((entry: string) => { setRawOf(entry); setLayer("raw"); }, []);

  // Paper has no scrolling: first all of the path is read and drawn, then the browser prints it.
  const print = useCallback(() => {
    void store.all(path).then(() => { if (route.view !== "transcript") go("transcript"); setPrinting(true); });
  }, [store, path, go, route.view]);
  useEffect(() => {
    if (!printing) return;
    const done = () => setPrinting(false);
    window.addEventListener("afterprint", done);
    const timer = window.setTimeout(() => window.print(), 300);
    return () => { window.clearTimeout(timer); window.removeEventListener("afterprint", done); };
  }, [printing]);

  const sibling = (step: number) => {
    // The nearest fork at or above the selection decides what left and right mean.
    for (let up = selected; up !== undefined; up = tree.rows.get(up)?.parent) {
      const all = tree.siblings(up);
      const next = all[all.indexOf(up) + step];
      if (all.length > 1) return next === undefined ? undefined : select(next);
    }
  };
  const fork = (step: number) => {
    const at = path.indexOf(selected ?? "");
    const forks = path.filter((id) => (tree.children.get(id)?.length ?? 0) > 1);
    const next = step < 0 ? forks.findLast((id) => path.indexOf(id) < at) : forks.find((id) => path.indexOf(id) > at);
    if (next !== undefined) select(next);
  };
  const rate = (rating: number) => {
    const row = selected === undefined ? undefined : tree.rows.get(selected);
    if (!write || row?.role !== "assistant") return;
    void post(`/api/sessions/${store.key}/entries/${encodeURIComponent(row.id)}/notes`, { rating: row.rating === rating ? 0 : rating }).catch((error: Error) => store.fail(error));
  };
  useEffect(() => {
    if (store.loaded && first.current) step(steps[0]);
  }, [store, store.loaded]); // eslint-disable-line
  const toggle = (wanted: Layer) => setLayer((now) => (now === wanted ? undefined : wanted));
  const step = (id: string | undefined) => id !== undefined && select(id);
  // Stopping what is being written asks once: the first Esc says so, the second does it.
  const running = [...store.runs.values()].filter((run) => run.mine && isActive(run));
  const stop = () => {
    setAsking(false);
    for (const run of running) void post(`/api/runs/${run.id}/stop`).catch((error: Error) => store.fail(error));
  };
  const askToStop = () => {
    if (running.length === 0) return;
    if (asking) return stop();
    setAsking(true);
    window.setTimeout(() => setAsking(false), 4000);
  };
  const session = store.session;
  const actions: Action[] = [
    { label: "Next message", keys: ["j", "ArrowDown"], icon: "down", run: () => step(steps[here + 1]) },
    { label: "Previous message", keys: ["k", "ArrowUp"], icon: "up", run: () => step(steps[here - 1]) },
    { label: "Previous sibling", keys: ["h", "ArrowLeft"], icon: "left", run: () => sibling(-1) },
    { label: "Next sibling", keys: ["l", "ArrowRight"], icon: "right", run: () => sibling(1) },
    { label: "Previous fork", keys: ["["], icon: "branch", run: () => fork(-1) },
    { label: "Next fork", keys: ["]"], icon: "branch", run: () => fork(1) },
    { label: "First message", keys: ["g"], icon: "up", run: () => (store.loaded ? step(steps[0]) : (first.current = true)) },
    { label: "Last message", keys: ["G"], icon: "down", run: () => step(steps.at(-1)) },
    ...VIEWS.map(([view, label, icon], at) => ({ label, keys: [String(at + 1)], icon, run: () => go(view) })),
    { label: "Continue from here", keys: ["c", "m"], icon: "send", run: goOn },
    { label: "Edit and branch", keys: ["e"], icon: "edit", run: () => setLayer("edit") },
    { label: "Name the branch", keys: ["b"], icon: "branch", run: () => setLayer("branch") },
    { label: "Merge branches", keys: ["M"], icon: "merge", run: () => setLayer("merge") },
    { label: "Write a note", keys: ["N"], icon: "note", run: () => write && setNoting(selected) },
    { label: "Rate as good", icon: "good", run: () => rate(1) },
    { label: "Rate as poor", icon: "poor", run: () => rate(-1) },
    { label: "Search in this session", keys: ["/"], icon: "search", run: () => setLayer("find") },
    { label: "Outline", keys: ["o"], icon: "outline", run: () => toggle("outline") },
    { label: "Fold everything below this message", keys: [" ", "f"], icon: "fold", run: () => fold("folded") },
    { label: "Fold the run from this message to the next fork", keys: ["F"], icon: "fold", run: () => fold("runs") },
    { label: folds.loops ? "Unfold tool loops" : "Fold tool loops", keys: ["shift space"], icon: "fold", run: () => refold((before) => ({ loops: !before.loops })) },
    { label: "Doctor", keys: ["d"], icon: "doctor", run: () => toggle("doctor") },
    { label: "What the model read", keys: ["x"], icon: "timeline", run: () => toggle("context") },
    { label: "Raw JSON", keys: ["r"], icon: "wire", run: () => selected !== undefined && raw(selected) },
    { label: "Export", keys: ["E"], icon: "export", run: () => setLayer("export") },
    { label: "Print the transcript", keys: ["Ctrl P"], icon: "transcript", run: print },
    ...(write && session?.readOnly !== true ? [{ label: "Rename this session", icon: "edit", run: () => setLayer("rename") }] : []),
    ...(write && session !== undefined && session.source !== "watch" ? [{ label: session.source === "file" ? "Close this file" : "Delete this session", icon: session.source === "file" ? "x" : "trash", run: () => remove(session, store) }] : []),
    { label: "Theme", keys: ["t"], icon: "sun", run: toggleTheme },
    { label: "Keyboard shortcuts", keys: ["?"], icon: "more", run: () => setLayer("keys") },
    ...(running.length > 0 ? [{ label: running.length === 1 ? "Stop the answer" : `Stop ${running.length} answers`, keys: ["Esc Esc"], icon: "stop", run: stop }] : []),
    ...tree.branches.map((one) => ({ label: `Go to branch ${one.name}`, icon: "branch", run: () => select(one.head) })),
    { label: "All sessions", icon: "home", run: () => navigate("/") },
  ];
  // What is closed late, when a dialog has saved, leaves what was opened since.
  const close = (which: Layer) => () => setLayer((now) => (now === which ? undefined : now));
  const latest = useRef<(event: KeyboardEvent) => void>(undefined);
  latest.current = (event) => {
    const typing = event.target instanceof HTMLElement && (event.target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName));
    if (event.key === "Escape") return layer === undefined ? askToStop() : setLayer(undefined);
    if (event.metaKey || event.ctrlKey) {
      const over = { f: () => setLayer("find"), k: () => setLayer("commands"), p: print }[event.key];
      if (over !== undefined) {
        event.preventDefault();
        over();
      }
      return;
    }
    if (typing || event.altKey || (layer !== undefined && MODAL.has(layer)) || !hasSingleKeys()) return;
    if (event.key === " " && event.target instanceof Element && event.target.closest("button, a, summary") !== null) return; // presses it
    if (event.shiftKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      event.preventDefault();
      return rate(event.key === "ArrowUp" ? 1 : -1);
    }
    const pressed = event.shiftKey && event.key === " " ? "shift space" : event.key;
    const action = actions.find((one) => one.keys?.includes(pressed));
    if (action === undefined) return;
    event.preventDefault();
    action.run();
  };
  useLayoutEffect(() => {
    const key = (event: KeyboardEvent) => latest.current?.(event);
    window.addEventListener("keydown", key);
    sendKeptKeys();
    return () => window.removeEventListener("keydown", key);
  }, []);

  const branch = tree.branches.find((one) => path.includes(one.head));
  const totals = useMemo(() => {
    const sum = { answers: 0, ms: 0, read: 0, cached: 0, out: 0, cost: 0, known: false, unknown: 0 };
    for (const entry of path) {
      const row = tree.rows.get(entry);
      if (row?.role !== "assistant") continue;
      sum.answers += 1;
      sum.ms += row.ms ?? 0;
      if (row.usage !== undefined) {
        sum.read += row.usage.input + row.usage.cacheRead + row.usage.cacheWrite;
        sum.cached += row.usage.cacheRead;
        sum.out += row.usage.output;
      }
      if (row.cost === undefined) sum.unknown += 1;
      else { sum.cost += row.cost; sum.known = true; }
    }
    return sum;
  }, [path, tree]);

  if (store.error !== undefined && session === undefined)
    return <main className="failure"><Mark /><h1>This session cannot be opened</h1><p>{store.error.message}</p><Button label="All sessions" onClick={() => navigate("/")} /></main>;
  const diagnosis = <Doctor store={store} path={path} branch={branch?.name} view={doctor} problem={undiagnosed} selected={selected} onSelect={select} onClose={close("doctor")} />;
  const number = tree.number(path, selected);
  const place = store.loaded ? (number === 0 ? plural(tree.length(path), "message") : `message ${number} of ${tree.length(path)}`) : "loading…";
  return (
    <div className="app" data-view={route.view}>
      <header className="top">
        <div>
          <a href="/" aria-label="All sessions" onClick={(event) => { event.preventDefault(); navigate("/"); }}><Mark /></a>
          <span className="crumb">{session?.project !== undefined && <><span className="dim">{session.project}</span><span className="sep">/</span></>}<span className="now cut" dir="auto" title={session?.title}>{session?.title ?? "…"}</span><span className="phoneonly dim cut">{[place, !store.loaded ? undefined : totals.answers === 0 ? "no answers" : totals.known ? spent(totals.cost, totals.unknown) : "cost unknown"].filter(Boolean).join(" · ")}</span></span>
          {session?.live !== undefined && <span className="chip live"><i className="pulse" />Live</span>}
          {session?.readOnly && <span className="chip line">read-only</span>}
          {(session?.problems ?? 0) > 0 && <button type="button" className="chip warn" onClick={() => toggle("doctor")}>{plural(session?.problems ?? 0, "problem")}</button>}
        </div>
        <nav className="seg" aria-label="view">
          {VIEWS.map(([view, label, icon], at) => (
            <button key={view} type="button" aria-current={route.view === view ? "page" : undefined} title={`${label} (${at + 1})`} onClick={() => go(view)}><Icon name={icon} /><span>{label}</span></button>
          ))}
        </nav>
        <div className="end">
          <button type="button" className="field search" onClick={() => setLayer("find")}><Icon name="search" /><span>Search</span><kbd>/</kbd></button>
          <Button icon="doctor" label={doctor === undefined ? "Doctor" : plural(doctor.findings.length + doctor.problems.length, "finding")} kind="bare" pressed={layer === "doctor"} onClick={() => setLayer(layer === "doctor" ? undefined : "doctor")} keys="d" />
          <span className="phoneonly"><Button icon="search" label="Search" kind="bare" hideLabel onClick={() => setLayer("find")} keys="/" /></span>
          <Button icon="export" label="Export" kind="bare" hideLabel onClick={() => setLayer("export")} keys="shift e" />
          <Button icon="sun" label="Theme" kind="bare" hideLabel onClick={toggleTheme} keys="t" />
          <Button icon="more" label="Commands" kind="bare" hideLabel onClick={() => setLayer("commands")} keys="Ctrl K" />
        </div>
      </header>
      {store.connection === "lost" && <Lost store={store} write={write} />}
      {store.problem !== undefined && <p className="toast float" role="alert"><Icon name="alert" />{store.problem.message}<Button icon="x" label="Close" kind="bare" small hideLabel onClick={() => store.fail(undefined)} /></p>}
      <p className="unseen" role="status">{store.announcement}</p>
      {route.view === "canvas" && (
        <div className={`work canvaswork ${layer === "outline" ? "with-outline" : ""}`} style={{ "--panel-width": `${panel}px` } as React.CSSProperties}>
          <div className="rail">
            <Button icon="outline" label="Outline" kind="bare" hideLabel pressed={layer === "outline"} onClick={() => setLayer(layer === "outline" ? undefined : "outline")} keys="o" />
            <Button icon="fold" label="Fold tool loops" kind="bare" hideLabel pressed={folds.loops} onClick={() => refold((before) => ({ loops: !before.loops }))} keys="shift space" />
            <Button icon="timeline" label="Context" kind="bare" hideLabel pressed={layer === "context"} onClick={() => setLayer(layer === "context" ? undefined : "context")} keys="x" />
            <span className="push" />
            <Button icon="keys" label="Keyboard shortcuts" kind="bare" hideLabel onClick={() => setLayer("keys")} keys="?" />
          </div>
          {!phone && settled && <Outline store={store} path={path} selected={selected} onSelect={select} unseen={layer !== "outline"} />}
          <div className="left">
            <CanvasView store={store} version={store.version} path={path} selected={selected} findings={findings} folds={folds} onSelect={select} onCompare={() => go("compare")} onMerge={() => setLayer("merge")} />
            {!phone && <Ruler store={store} path={path} selected={selected} open={layer === "context"} onToggle={() => setLayer(layer === "context" ? undefined : "context")} onSelect={select} />}
          </div>
          {phone ? <Outline store={store} path={path} selected={selected} onSelect={select} /> : <aside className="side">
            <Splitter width={panel} onWidth={setPanel} />
            {layer !== "doctor" && <header>
              <div>
                <BranchChip name={branch?.name ?? "this path"} current live={branch?.live} onClick={() => setLayer("outline")} />
                <span className="dim">{place}</span>
                <span className="push" />
                <Button icon="up" label="Previous message" kind="bare" small hideLabel onClick={() => steps[here - 1] !== undefined && select(steps[here - 1]!)} keys="k" />
                <Button icon="down" label="Next message" kind="bare" small hideLabel onClick={() => steps[here + 1] !== undefined && select(steps[here + 1]!)} keys="j" />
              </div>
              <Figures>{[duration(totals.ms || undefined), totals.read > 0 ? `${tokens(totals.read)} in, ${Math.round((100 * totals.cached) / totals.read)} % cached` : undefined, totals.out > 0 ? `${tokens(totals.out)} out` : undefined, !store.loaded ? undefined : totals.answers === 0 ? "no answers" : totals.known ? <b key="c">{cost(totals.cost)}{totals.unknown > 0 ? ` and ${totals.unknown} unknown` : ""}</b> : "cost unknown"]}</Figures>
            </header>}
            {!settled ? <div className="flow" /> : layer === "doctor" ? diagnosis : <Transcript store={store} version={store.version} path={path} selected={selected} block={block} narrow onSelect={select} onContinue={(entry) => { select(entry); setLayer("continue"); }} onRaw={raw} onNote={setNoting} noting={noting} write={write} agents={AGENTS} />}
            <Composer store={store} selected={layer === "continue" || layer === "edit" ? selected : onward} path={path} open={layer === "continue" || layer === "edit"} edit={layer === "edit"} write={write} onOpen={goOn} onClose={() => setLayer(undefined)} onSelect={select} />
          </aside>}
        </div>
      )}
      {route.view === "transcript" && (
        <div className="work readwork">
          <Outline store={store} path={path} selected={selected} onSelect={select} />
          <Printing.Provider value={printing}><Transcript store={store} version={store.version} path={path} selected={selected} block={block} onSelect={select} onContinue={(entry) => { select(entry); setLayer("continue"); }} onRaw={raw} onNote={setNoting} noting={noting} write={write} agents={AGENTS} /></Printing.Provider>
          <div className="foot">
            <Ruler store={store} path={path} selected={selected} open={layer === "context"} onToggle={() => setLayer(layer === "context" ? undefined : "context")} onSelect={select} />
            <Composer store={store} selected={layer === "continue" || layer === "edit" ? selected : onward} path={path} open={layer === "continue" || layer === "edit"} edit={layer === "edit"} write={write} onOpen={goOn} onClose={() => setLayer(undefined)} onSelect={select} />
          </div>
        </div>
      )}
      <Suspense fallback={<div className="waiting">…</div>}>
        {route.view === "compare" && <Compare store={store} path={path} onSelect={(entry, key) => navigate(`/s/${key}/transcript?at=${encodeURIComponent(entry)}`)} />}
        {route.view === "wire" && <Wire store={store} path={path} selected={selected} />}
        {layer === "branch" && selected !== undefined && <NameBranch store={store} entry={path.at(-1) ?? selected} onClose={close("branch")} />}
        {layer === "merge" && <Merge store={store} path={path} onClose={close("merge")} onSelect={select} />}
        {layer === "export" && <Export store={store} path={path} onClose={close("export")} />}
        {layer === "raw" && rawOf !== undefined && <Raw session={store.key} entry={rawOf} onClose={close("raw")} />}
        {layer === "commands" && <Palette actions={actions} onClose={close("commands")} />}
        {layer === "find" && <Find store={store} onClose={close("find")} onSelect={(entry, block) => { select(entry, block); setLayer(undefined); }} />}
        {layer === "rename" && <Rename store={store} onClose={close("rename")} />}
      </Suspense>
      {layer === "doctor" && (phone || route.view !== "canvas") && <aside className="over">{diagnosis}</aside>}
      {asking && running.length > 0 && <p className="toast note" role="status"><Icon name="stop" />Press Esc again to stop {running.length === 1 ? "the answer" : plural(running.length, "answer")}.</p>}
      {store.waiting.size > 0 && (route.view === "compare" || route.view === "wire" || (phone && route.view === "canvas")) && <button type="button" className="toast waits" onClick={() => go("transcript")}><Icon name="alert" />{[...store.waiting.values()].map((one) => one.tool).join(", ")}: waiting for your approval</button>}
      {layer === "keys" && <KeySheet onClose={close("keys")} />}
      <nav className="tabs" aria-label="view">
        {PHONE.map(([view, label, icon]) => <button key={view} type="button" aria-current={route.view === view ? "page" : undefined} onClick={() => go(view)}><Icon name={icon} />{label}</button>)}
        <button type="button" className="new" aria-label="Continue" onClick={() => { go("transcript"); goOn(); }}><Icon name="plus" /></button>
      </nav>
    </div>
  );
}

/** False until the cards are drawn: what stands beside them comes when the browser has nothing else to do. */
function useSettled(begun: boolean): boolean {
  const [settled, setSettled] = useState(false);
  useEffect(() => {
    if (!begun || settled) return;
    const later = window.requestIdleCallback ?? ((run: () => void) => window.setTimeout(run, 50)); // Safari has none
    const cancel = window.cancelIdleCallback ?? window.clearTimeout;
    const timer = later(() => setSettled(true), { timeout: 300 });
    return () => cancel(timer);
  }, [begun, settled]);
  return settled;
}

/** Goes by itself when the server answers again. */
function Lost({ store, write }: { store: SessionStore; write: boolean }) {
  const [, setTick] = useState(0);
  useEffect(() => {
    const timer = window.setInterval(() => setTick((now) => now + 1), 1000);
    return () => window.clearInterval(timer);
  }, []);
  if (store.deleted)
    return <p className="lost" role="status"><Icon name="alert" className="s" />This session was deleted.{write && <Button label="Restore" small onClick={() => void restoreSession(store.key).catch((error: Error) => store.fail(error))} />}<Button label="All sessions" small onClick={() => navigate("/")} /></p>;
  const left = Math.max(0, Math.ceil(((store.nextTry ?? 0) - Date.now()) / 1000));
  return <p className="lost" role="status"><Icon name="alert" className="s" />Connection lost. Shown as of {clock(store.lostAt)}; {left > 0 ? `next try in ${left} s` : "trying again"}.</p>;
}

/** Deletes a session, or closes a file, and goes back to the list, which offers to undo it. */
function remove(session: Session, store: SessionStore): void {
  void removeSession(session).then((toast) => { part(toast); navigate("/"); }, (error: Error) => store.fail(error));
}
