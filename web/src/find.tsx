/** Find within the session, folded and unrendered text included. */

import { useEffect, useMemo, useState } from "react";

import { get } from "./http";
import { Dialog } from "./dialog";
import { plural } from "./format";
import type { SessionStore } from "./store";
import type { Hit } from "./types";

const ROLES = ["", "user", "assistant", "toolResult", "system"];

export default function Find({ store, onClose, onSelect }: { store: SessionStore; onClose: () => void; onSelect: (entry: string) => void }) {
  const [query, setQuery] = useState("");
  const [role, setRole] = useState("");
  const [errors, setErrors] = useState(false);
  const [tool, setTool] = useState("");
  const [model, setModel] = useState("");
  const [least, setLeast] = useState("");
  const { tools, models } = useMemo(() => {
    const rows = [...store.tree.rows.values()];
    return { tools: [...new Set(rows.flatMap((row) => (row.calls ?? []).map((call) => call.name)))].sort(), models: [...new Set(rows.flatMap((row) => (row.role === "assistant" && row.model !== undefined ? [row.model] : [])))].sort() };
  }, [store]);
  const [found, setFound] = useState<{ hits: Hit[]; total: number }>();
  useEffect(() => {
    if (query.trim() === "" && role === "" && tool === "" && model === "" && least === "" && !errors) return setFound(undefined);
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      get<{ hits: Hit[]; total: number }>("/api/search", { q: query, in: store.key, role: role || undefined, tool: tool || undefined, model: model || undefined, minCost: least || undefined, error: errors ? 1 : undefined, limit: 200 }, abort.signal).then(setFound, () => undefined);
    }, 100);
    return () => { window.clearTimeout(timer); abort.abort(); };
  }, [query, role, tool, model, least, errors, store]);
  return (
    <Dialog title="Search in this session" onClose={onClose} wide>
      <div className="finder">
        <input className="field big" value={query} onChange={(event) => setQuery(event.target.value)} placeholder='words, "a phrase", -without' aria-label="search in this session" />
        <select className="field" value={role} onChange={(event) => setRole(event.target.value)} aria-label="role">{ROLES.map((one) => <option key={one} value={one}>{one === "" ? "any role" : one}</option>)}</select>
        {tools.length > 0 && <select className="field" value={tool} onChange={(event) => setTool(event.target.value)} aria-label="tool"><option value="">any tool</option>{tools.map((one) => <option key={one}>{one}</option>)}</select>}
        {models.length > 1 && <select className="field" value={model} onChange={(event) => setModel(event.target.value)} aria-label="model"><option value="">any model</option>{models.map((one) => <option key={one}>{one}</option>)}</select>}
        <select className="field" value={least} onChange={(event) => setLeast(event.target.value)} aria-label="cost"><option value="">any cost</option>{["0.01", "0.1", "1"].map((one) => <option key={one} value={one}>${one} or more</option>)}</select>
        <label className="opt"><input type="checkbox" checked={errors} onChange={(event) => setErrors(event.target.checked)} /> failed only</label>
      </div>
      {found !== undefined && <p className="dim">{plural(found.total, "place")}</p>}
      {found?.hits.map((hit, at) => (
        <button key={at} type="button" className="hit" onClick={() => onSelect(hit.entry)}>
          <span className={`far ${hit.role === "toolResult" ? "tool" : hit.role}`} />
          <span className="path"><b>{hit.role}</b><span className="dim">{[hit.kind, hit.tool, hit.number === undefined ? undefined : `message ${hit.number}`].filter(Boolean).join(" · ")}</span></span>
          <span />
          <span className="snip">{hit.snippet.map((part, n) => (part.hit ? <mark key={n}>{part.text}</mark> : <span key={n}>{part.text}</span>))}</span>
        </button>
      ))}
    </Dialog>
  );
}
