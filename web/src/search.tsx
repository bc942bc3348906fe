/** Search over all sessions: filters, hits, and the chosen hit in full beside them. */

import { useEffect, useState } from "react";

import { get } from "./http";
import { Blocks } from "./blocks";
import { date, plural } from "./format";
import { Icon } from "./icons";
import { follow, nextLink } from "./links";
import { Glyph, roleName, speaker } from "./parts";
import { usePhone } from "./phone";
import type { EntryView, Hit } from "./types";

const PAGE = 50;
const DAY = 86_400_000;
const COSTS = ["0.01", "0.1", "1"];
const AGES: [string, string][] = [["1", "Last 24 hours"], ["7", "Last 7 days"], ["30", "Last 30 days"], ["365", "Last year"]];

export type Filter = { role?: string; tool?: string; model?: string; error?: boolean; minCost?: string; days?: string };
type Values = { roles: string[]; tools: string[]; models: string[] };
type Found = { hits: Hit[]; total: number; sessions: number; ms: number; next?: string };

export function isFiltered(filter: Filter): boolean {
  return Object.values(filter).some((value) => value !== undefined && value !== false);
}

function useFilterValues(): Values | undefined {
  const [values, setValues] = useState<Values>();
  useEffect(() => void get<Values>("/api/filters").then(setValues, () => undefined), []);
  return values;
}

/** The filters as a row of lists. */
export function Filters({ filter, onChange, values }: { filter: Filter; onChange: (filter: Filter) => void; values: Values }) {
  const list = (name: "role" | "tool" | "model" | "minCost" | "days", label: string, options: readonly (readonly [string, string])[]) => options.length > 0 && (
    <select className="field" aria-label={label.toLowerCase()} data-set={filter[name] !== undefined || undefined} value={filter[name] ?? ""} onChange={(event) => onChange({ ...filter, [name]: event.target.value || undefined })}>
      <option value="">{`Any ${label.toLowerCase()}`}</option>
      {options.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
    </select>
  );
  return (
    <div className="filters" role="group" aria-label="filters">
      {list("role", "Role", values.roles.map((role) => [role, roleName(role)]))}
      {list("tool", "Tool", values.tools.map((tool) => [tool, tool]))}
      {list("model", "Model", values.models.map((model) => [model, model]))}
      {list("minCost", "Cost", COSTS.map((cost) => [cost, `$${cost} or more`]))}
      {list("days", "Date", AGES)}
      <button type="button" className="field" aria-pressed={filter.error === true} onClick={() => onChange({ ...filter, error: filter.error ? undefined : true })}>Failed only</button>
      {isFiltered(filter) && <button type="button" className="btn small bare" onClick={() => onChange({})}>Clear filters</button>}
    </div>
  );
}

export function GalleryFilters({ filter, onChange }: { filter: Filter; onChange: (filter: Filter) => void }) {
  const values = useFilterValues();
  return <Filters filter={filter} onChange={onChange} values={values ?? { roles: [], tools: [], models: [] }} />;
}

/** The hits of a query, a page at a time. */
export function useSearch(query: string, filter: Filter, scope: { in?: string; source?: string }): { found?: Found; problem?: string; more: () => void } {
  const [found, setFound] = useState<Found>();
  const [problem, setProblem] = useState<string>();
  const asked = { q: query, ...scope, role: filter.role, tool: filter.tool, model: filter.model, minCost: filter.minCost, error: filter.error ? 1 : undefined, from: filter.days === undefined ? undefined : Math.floor(Date.now() / 60_000) * 60_000 - Number(filter.days) * DAY, limit: PAGE };
  const key = JSON.stringify(asked);
  useEffect(() => {
    setProblem(undefined);
    if (query.trim() === "" && !isFiltered(filter)) return setFound(undefined);
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      get<Found>("/api/search", asked, abort.signal).then(setFound, (error: Error) => abort.signal.aborted || setProblem(error.message));
    }, 120);
    return () => { window.clearTimeout(timer); abort.abort(); };
  }, [key]); // eslint-disable-line
  const more = () => void get<Found>("/api/search", { ...asked, cursor: found?.next }).then((next) => setFound((before) => ({ ...next, hits: [...(before?.hits ?? []), ...next.hits] })), (error: Error) => setProblem(error.message));
  return { found, problem, more };
}

/** Where a hit is, as an address. */
export function placeOf(hit: Hit): string {
  const block = hit.block === undefined ? "" : `&block=${hit.block}`;
  return `/s/${hit.key}/transcript?at=${encodeURIComponent(hit.entry)}${block}`;
}

export function HitLine({ hit, titled }: { hit: Hit; titled: boolean }) {
  const about = [titled ? undefined : roleName(hit.role), hit.kind === "text" ? undefined : hit.kind, hit.tool, hit.model, hit.number === undefined ? undefined : `message ${hit.number}`];
  return (
    <>
      <Glyph row={{ role: hit.role, call: hit.tool === undefined ? undefined : { id: "", name: hit.tool } }} />
      <span className="path">{titled && <b className="cut" dir="auto">{hit.title}</b>}<span className="dim cut">{about.filter(Boolean).join(" · ")}</span></span>
      <span className="dim num">{hit.at === undefined ? "" : date(hit.at)}</span>
      <span dir="auto" className={`snip ${hit.kind === "result" || hit.kind === "arguments" ? "mono" : ""}`}>{hit.snippet.map((part, at) => (part.hit ? <mark key={at}>{part.text}</mark> : <span key={at}>{part.text}</span>))}</span>
    </>
  );
}

export function Hits({ found, onMore }: { found: Found; onMore: () => void }) {
  const [chosen, setChosen] = useState(0);
  const phone = usePhone();
  useEffect(() => setChosen(0), [found.hits[0]]);
  const hit = found.hits[chosen];
  return (
    <section className="found" aria-label="results" onKeyDown={(event) => nextLink(event, "a.hit")}>
      <div>
        <p className="dim" role="status">{found.total === 0 ? "Nothing found. Try fewer words, or clear a filter." : `${plural(found.total, "match", "matches")} in ${plural(found.sessions, "session")} · ${found.ms} ms`}</p>
        {found.hits.map((one, at) => (
          <a key={`${one.key}${one.entry}${one.block ?? ""}${one.kind}${at}`} className="hit" aria-current={(!phone && at === chosen) || undefined} href={placeOf(one)} onClick={follow} onFocus={() => setChosen(at)} onMouseEnter={() => setChosen(at)}><HitLine hit={one} titled /></a>
        ))}
        {found.next !== undefined && <button type="button" className="btn" onClick={onMore}>Show more</button>}
      </div>
      {!phone && hit !== undefined && <Preview hit={hit} />}
    </section>
  );
}

/** The whole message of a hit. */
function Preview({ hit }: { hit: Hit }) {
  const [entry, setEntry] = useState<EntryView>();
  useEffect(() => {
    setEntry(undefined);
    if (hit.entry === "") return;
    const abort = new AbortController();
    const timer = window.setTimeout(() => void get<EntryView>(`/api/sessions/${hit.key}/entries/${encodeURIComponent(hit.entry)}`, {}, abort.signal).then(setEntry, () => undefined), 80);
    return () => { window.clearTimeout(timer); abort.abort(); };
  }, [hit]);
  const row = { role: hit.role, model: hit.model, call: hit.tool === undefined ? undefined : { id: "", name: hit.tool } };
  return (
    <aside className="preview card" aria-label="preview">
      <header><b className="cut" dir="auto">{hit.title}</b><a className="btn small bare" href={placeOf(hit).replace("/transcript?", "/canvas?")} onClick={follow}><Icon name="canvas" />Canvas</a><a className="btn small" href={placeOf(hit)} onClick={follow}>Open<kbd>↵</kbd></a></header>
      <div className="body">
        <div className="who"><Glyph row={row} /><b className="cut">{speaker(row)}</b></div>
        {entry === undefined ? <p className="txt" dir="auto">{hit.snippet.map((part) => part.text).join("")}</p> : <div className="words txt"><Blocks content={entry.message.content} session={hit.key} entry={hit.entry} /></div>}
      </div>
    </aside>
  );
}
