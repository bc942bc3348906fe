/** The reading page of an export: branches, search, media, all from what the file holds. */

import { useEffect, useMemo, useState } from "react";

import { tree as filled } from "./filled";
import { plural } from "./format";
import { Icon, Mark } from "./icons";
import { oneLine } from "./plain";
import { pretty } from "./blocks";
import { Outline } from "./outline";
import { SessionStore } from "./store";
import { toggleTheme } from "./theme";
import { Transcript } from "./transcript";
import { Button } from "./parts";
import { Dialog } from "./dialog";
import type { BlockView, EntryView, Session, Totals, Tree } from "./types";

type Blobs = Record<string, { mimeType: string; data: string }>;
type Part = { session: Session; tree: Pick<Tree, "rows" | "head" | "branches">; entries: Record<string, EntryView>; stats: Totals };
type Data = Part & { blobs: Blobs; agents?: Record<string, Part> };

// A frame's address has the key that lets it in: it is not for others.
const FRAMED = window.parent !== window;
const hashOf = (agent: string | undefined, at: string | undefined) => `#${new URLSearchParams({ ...(agent === undefined ? {} : { agent }), ...(at === undefined ? {} : { at }) }).toString()}`;
const readPlace = () => new URLSearchParams(window.location.hash.slice(1));

/** The conversation, or one of its sub-agents: `#agent=NAME&at=ENTRY` says which. */
export function Exported({ data }: { data: Data }) {
  const [agent, setAgent] = useState(() => readPlace().get("agent") ?? undefined);
  const open = (next: string | undefined, at?: string) => {
    window.history.pushState(null, "", hashOf(next, at));
    setAgent(next);
  };
  useEffect(() => {
    const back = () => setAgent(readPlace().get("agent") ?? undefined);
    window.addEventListener("popstate", back);
    return () => window.removeEventListener("popstate", back);
  }, []);
  const part = agent === undefined ? undefined : data.agents?.[agent];
  const title = (name: string) => { const found = data.agents?.[name]; return found === undefined ? undefined : oneLine(found.session.title ?? ""); };
  return <Reading key={part === undefined ? "" : agent} data={part ?? data} blobs={data.blobs} agent={part === undefined ? undefined : agent} whole={data} title={title} onOpen={open} />;
}

type Found = { agent?: string; entry: EntryView; text: string };

/** Messages in which all words are, of every conversation in the file. */
function search(data: Data, query: string): Found[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const parts: [string | undefined, Part][] = [[undefined, data], ...Object.entries(data.agents ?? {})];
  return parts.flatMap(([agent, part]) =>
    Object.values(part.entries)
      .filter((entry) => { const text = JSON.stringify(entry.message.content).toLowerCase(); return words.every((word) => text.includes(word)); })
      .map((entry) => ({ agent, entry, text: oneLine(part.tree.rows.find((row) => row.id === entry.id)?.text ?? "") })),
  ).slice(0, 200);
}

function Reading({ data, blobs, agent, whole, title, onOpen }: { data: Part; blobs: Blobs; agent?: string; whole: Data; title: (name: string) => string | undefined; onOpen: (agent: string | undefined, at?: string) => void }) {
  const store = useMemo(() => {
    const made = new SessionStore(data.session.key);
    const read = filled({ ...data.tree, session: data.session });
    made.session = { ...read.session, cost: data.stats.cost, unpriced: data.stats.unpriced };
    made.tree.put(read.rows);
    made.tree.setHead(read.head, read.branches);
    made.loaded = true;
    for (const entry of Object.values(data.entries)) made.entries.set(entry.id, { ...entry, message: { ...entry.message, content: entry.message.content.map((block) => local(block, blobs)) } });
    return made;
  }, [data]);
  const linked = readPlace().get("at") ?? "";
  const [selected, setSelected] = useState(store.tree.rows.has(linked) ? linked : (store.tree.anchor(data.tree.head ?? "") ?? data.tree.head));
  const [query, setQuery] = useState("");
  const [raw, setRaw] = useState<string>();
  const path = useMemo(() => store.tree.through(selected, data.tree.head), [store, selected, data]);
  const hits = useMemo(() => search(whole, query), [query, whole]);
  const select = (id: string) => { const row = store.tree.rows.get(id); if (row?.parent !== undefined) store.tree.visited.set(row.parent, id); window.history.replaceState(null, "", hashOf(agent, id)); setSelected(id); };
  useEffect(() => {
    document.title = store.session?.title ?? "Conversation";
    const key = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || (event.target instanceof HTMLElement && event.target.tagName === "INPUT")) return;
      const at = path.indexOf(store.tree.anchor(selected ?? "") ?? "");
      const steps = path.filter((id) => store.tree.isStep(id));
      const fork = path.slice(0, at + 1).findLast((id) => store.tree.siblings(id).length > 1);
      const all = fork === undefined ? [] : store.tree.siblings(fork);
      const next = { j: steps.find((id) => path.indexOf(id) > at), k: steps.findLast((id) => path.indexOf(id) < at), g: steps[0], G: steps.at(-1), h: all[all.indexOf(fork ?? "") - 1], l: all[all.indexOf(fork ?? "") + 1] }[event.key];
      if (next !== undefined) select(next);
      if (event.key === "/") { event.preventDefault(); document.querySelector<HTMLInputElement>("header input")?.focus(); }
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [store, path, selected]); // eslint-disable-line
  const linkTo = (at: string) => new URL(hashOf(agent, at), window.location.href).href;
  return (
    <div className="app exported">
      <header className="top">
        <div><Mark /><span className="crumb">{agent !== undefined && <><button type="button" className="btn small bare" onClick={() => onOpen(undefined)}>{oneLine(whole.session.title ?? "")}</button><span className="sep">/</span></>}<span className="now cut" dir="auto">{store.session?.title}</span></span></div>
        <div><label className="field"><Icon name="search" /><input value={query} onChange={(event) => setQuery(event.target.value)} placeholder="Search" aria-label="search" /></label></div>
        <div className="end"><Button icon="sun" label="Theme" kind="bare" hideLabel onClick={toggleTheme} /></div>
      </header>
      <div className="work readwork">
        <Outline store={store} path={path} selected={selected} onSelect={select} />
        {query.trim() === "" ? (
          <Transcript store={store} version={0} path={path} selected={selected} onSelect={select} onContinue={select} onRaw={setRaw} agents={{ title, open: (name) => onOpen(name) }} link={FRAMED ? null : linkTo} />
        ) : (
          <div className="read"><p className="dim">{plural(hits.length, "message")}</p>{hits.map((hit) => <button key={`${hit.agent ?? ""} ${hit.entry.id}`} type="button" className="hit" onClick={() => { setQuery(""); if (hit.agent === agent) select(hit.entry.id); else onOpen(hit.agent, hit.entry.id); }}><span className={`far ${hit.entry.message.role === "toolResult" ? "tool" : hit.entry.message.role}`} /><span className="path"><b>{hit.entry.message.role}</b>{hit.agent !== undefined && <span className="dim">sub-agent: {title(hit.agent)}</span>}</span><span /><span className="snip" dir="auto">{hit.text}</span></button>)}</div>
        )}
      </div>
      {raw !== undefined && <Dialog title="Stored JSON" onClose={() => setRaw(undefined)} wide><pre className="lines rawjson">{pretty(data.entries[raw]?.message)}</pre></Dialog>}
    </div>
  );
}

/** Media point into the file itself. */
function local(block: BlockView, blobs: Blobs): BlockView {
  const source = (block as { src?: string }).src;
  if (source === undefined || !source.startsWith("blob:")) return block;
  const blob = blobs[source.slice(5)];
  if (blob === undefined || !/^(image\/(png|jpeg|gif|webp|avif)|audio\/|application\/pdf)/.test(blob.mimeType)) return { ...block, src: undefined, missing: true } as BlockView;
  return { ...block, src: `data:${blob.mimeType};base64,${blob.data}` } as BlockView;
}
