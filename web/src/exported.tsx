/** The reading page of an export: branches, search, media, all from what the file holds. */

import { useMemo, useState } from "react";

import { cost, plural } from "./format";
import { Icon, Mark } from "./icons";
import { Outline } from "./outline";
import { SessionStore } from "./store";
import { toggleTheme } from "./theme";
import { Transcript } from "./transcript";
import { Button } from "./parts";
import { Dialog } from "./dialog";
import type { BlockView, EntryView, Session, Totals, Tree } from "./types";

type Data = { session: Session; tree: Pick<Tree, "rows" | "head" | "branches">; entries: Record<string, EntryView>; blobs: Record<string, { mimeType: string; data: string }>; stats: Totals };

export function Exported({ data }: { data: Data }) {
  const store = useMemo(() => {
    const made = new SessionStore(data.session.key);
    made.session = data.session;
    made.tree.put(data.tree.rows);
    made.tree.setHead(data.tree.head, data.tree.branches);
    for (const entry of Object.values(data.entries)) made.entries.set(entry.id, { ...entry, message: { ...entry.message, content: entry.message.content.map((block) => local(block, data.blobs)) } });
    return made;
  }, [data]);
  const [selected, setSelected] = useState(data.tree.head);
  const [query, setQuery] = useState("");
  const [raw, setRaw] = useState<string>();
  const path = useMemo(() => store.tree.path(selected === undefined ? undefined : store.tree.leaf(selected, new Set(store.tree.path(data.tree.head)))), [store, selected, data]);
  const hits = useMemo(() => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) return [];
    return [...store.entries.values()].filter((entry) => { const text = JSON.stringify(entry.message.content).toLowerCase(); return words.every((word) => text.includes(word)); }).slice(0, 200);
  }, [query, store]);
  const select = (id: string) => { const row = store.tree.rows.get(id); if (row?.parent !== undefined) store.tree.visited.set(row.parent, id); setSelected(id); };
  return (
    <div className="app exported">
      <header className="top">
        <div><Mark /><span className="crumb"><span className="now cut">{data.session.title}</span></span></div>
        <div><label className="field"><Icon name="search" /><input value={query} onChange={(event) => setQuery(event.target.value)} placeholder="Search" aria-label="search" /></label></div>
        <div className="end"><span className="dim">{plural(data.tree.rows.length, "message")} · {cost(data.stats.cost)}</span><Button icon="sun" label="Theme" kind="bare" hideLabel onClick={toggleTheme} /></div>
      </header>
      <div className="work readwork">
        <Outline store={store} path={path} selected={selected} onSelect={select} />
        {query.trim() === "" ? (
          <Transcript store={store} version={0} path={path} selected={selected} onSelect={select} onContinue={select} onRaw={setRaw} />
        ) : (
          <div className="read"><p className="dim">{plural(hits.length, "message")}</p>{hits.map((entry) => <button key={entry.id} type="button" className="hit" onClick={() => { setQuery(""); select(entry.id); }}><span className={`far ${entry.message.role === "toolResult" ? "tool" : entry.message.role}`} /><span className="path"><b>{entry.message.role}</b></span><span /><span className="snip">{store.tree.rows.get(entry.id)?.text}</span></button>)}</div>
        )}
      </div>
      {raw !== undefined && <Dialog title="As it is stored" onClose={() => setRaw(undefined)} wide><pre className="lines rawjson">{JSON.stringify(data.entries[raw]?.message, null, 2)}</pre></Dialog>}
    </div>
  );
}

/** Media point into the file itself. */
function local(block: BlockView, blobs: Data["blobs"]): BlockView {
  const source = (block as { src?: string }).src;
  if (source === undefined || !source.startsWith("blob:")) return block;
  const blob = blobs[source.slice(5)];
  if (blob === undefined || !/^(image\/(png|jpeg|gif|webp|avif)|audio\/|application\/pdf)/.test(blob.mimeType)) return { ...block, src: undefined, missing: true } as BlockView;
  return { ...block, src: `data:${blob.mimeType};base64,${blob.data}` } as BlockView;
}
