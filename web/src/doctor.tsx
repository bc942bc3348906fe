/** What is wrong with the selected path for a model, before anything is sent. */

import { useEffect, useState } from "react";

import { get } from "./http";
import { plural, tokens } from "./format";
import { Icon } from "./icons";
import { ModelField } from "./models";
import { BranchChip, Button, Loading } from "./parts";
import { setQuery, useRoute } from "./route";
import type { SessionStore } from "./store";
import type { DoctorView, Finding } from "./types";

/** The findings of a path, read anew when it or the model changes; nothing is read while the doctor is closed. */
export function useDoctor(store: SessionStore, to: string | undefined, open: boolean): { view?: DoctorView; problem?: string } {
  const model = useRoute().query.get("model") ?? undefined;
  const [view, setView] = useState<DoctorView>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    if (!open || to === undefined) return;
    const abort = new AbortController();
    get<DoctorView>(`/api/sessions/${store.key}/doctor`, { to, model }, abort.signal).then(
      (found) => { setView(found); setProblem(undefined); },
      (error: Error) => { if (!abort.signal.aborted) { setView(undefined); setProblem(error.message); } },
    );
    return () => abort.abort();
  }, [store, to, model, open]);
  return { view, problem };
}

const MARKS: Record<Finding["effect"], [icon: string, hue: string]> = { refuses: ["alert", "dropped"], drops: ["dropped", "dropped"], weakens: ["weakened", "weakened"] };

export function Doctor({ store, path, branch, view, problem, selected, onSelect, onClose }: { store: SessionStore; path: readonly string[]; branch?: string; view?: DoctorView; problem?: string; selected?: string; onSelect: (id: string) => void; onClose: () => void }) {
  const model = useRoute().query.get("model") ?? undefined;
  const [at, setAt] = useState(-1);
  const findings = view?.findings ?? [];
  useEffect(() => setAt(-1), [view]);
  const choose = (next: number) => {
    const one = findings[next];
    setAt(next);
    if (one?.entry !== undefined) onSelect(one.entry);
    document.querySelector(`[data-finding="${next}"]`)?.scrollIntoView({ block: "nearest" });
  };
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || findings.length === 0 || (event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName))) return;
      if (event.key === "n") choose((at + 1) % findings.length);
      else if (event.key === "p") choose((Math.max(at, 0) - 1 + findings.length) % findings.length);
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }); // the handler reads what is shown now
  const place = (one: Finding) => store.tree.number(path, one.entry);
  const repaired = findings.filter((one) => one.repaired).length;
  return (
    <section className="doctor" aria-label="doctor">
      <header>
        <div><Icon name="doctor" /><b>Doctor</b><span className="push" /><Button icon="x" label="Close the doctor" kind="bare" small hideLabel onClick={onClose} keys="d" /></div>
        <div><BranchChip name={branch ?? "this path"} current /><span className="dim">sent to</span><ModelField label="model to check for" value={model} placeholder={view?.target ?? "any model"} onChange={(name) => setQuery({ model: name })} /></div>
      </header>
      <div className="list">
        {problem !== undefined && <p className="err" role="alert"><Icon name="alert" />{problem}</p>}
        {view === undefined && problem === undefined && <Loading text="Checking…" />}
        {view !== undefined && findings.length === 0 && view.problems.length === 0 && <p className="empty"><Icon name="check" className="s" /> No problems found{model === undefined ? "" : ` for ${model}`}.{model === undefined && " Choose a model to check its limits and losses."}</p>}
        {view?.problems.map((one, n) => <div key={n} className="fd"><span className="loss dropped"><Icon name="alert" />cannot be read</span><span className="where">line {one.line ?? "unknown"}</span><p>{one.message}</p></div>)}
        {findings.map((one, n) => (
          <button key={one.n} type="button" data-finding={n} className={`fd ${n === at || (at < 0 && one.entry !== undefined && one.entry === selected) ? "here" : ""}`} onClick={() => choose(n)}>
            <span className={`loss ${MARKS[one.effect][1]}`}><Icon name={MARKS[one.effect][0]} />{one.effect}</span>
            <span className="where">{place(one) > 0 ? `message ${place(one)}` : ""}</span>
            <p>{one.message}</p>
            <p className="rem">{one.remedy}</p>
            <code className="path">{one.path}{one.repaired && " · repaired on a copy when sent"}</code>
          </button>
        ))}
      </div>
      {view !== undefined && (findings.length > 0 || view.fits !== undefined) && (
        <footer className="dim">
          {findings.length > 0 && <span>{repaired === findings.length ? "Sending repairs all of them on a copy." : `Sending repairs ${repaired} of ${plural(findings.length, "finding")} on a copy.`}</span>}
          {view.fits !== undefined && <span>About {tokens(view.fits.tokens)}{view.fits.window === undefined ? " tokens; the window is unknown" : ` of ${tokens(view.fits.window)} tokens`}.</span>}
        </footer>
      )}
    </section>
  );
}
