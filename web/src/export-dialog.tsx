/** Export: first what looks private, with its surroundings; then the bytes. */

import { useEffect, useState } from "react";

import { download, get, post } from "./http";
import { Dialog } from "./dialog";
import { tree as filled } from "./filled";
import { plural } from "./format";
import { Icon } from "./icons";
import { Button, Loss } from "./parts";
import { SessionStore } from "./store";
import type { Find, Session, Tree, WireLoss } from "./types";

/** Pictures are drawn by the page, from rows that the server has redacted like any other file. */
const PICTURES = ["svg", "png"];

async function drawn(data: Blob, format: string): Promise<Blob> {
  const { svgOf, pngOf } = await import("./picture");
  const { title, tree } = JSON.parse(await data.text()) as { title: string; tree: Pick<Tree, "rows" | "head" | "branches"> };
  const store = new SessionStore("picture");
  const read = filled({ ...tree, session: { key: "picture", title } as Session });
  store.tree.put(read.rows);
  store.tree.setHead(read.head, read.branches);
  const svg = svgOf(store, title);
  return format === "svg" ? new Blob([svg.text], { type: "image/svg+xml" }) : pngOf(svg);
}

/** One of each kind, and how often it comes; a program's own records are no losses to a reader. */
function grouped(losses: readonly WireLoss[]): [WireLoss, number][] {
  const kinds = new Map<string, [WireLoss, number]>();
  for (const loss of losses) {
    const kind = `${loss.severity} ${loss.what} ${loss.why}`;
    if (loss.severity !== "record") kinds.set(kind, [kinds.get(kind)?.[0] ?? loss, (kinds.get(kind)?.[1] ?? 0) + 1]);
  }
  return [...kinds.values()];
}

export default function Export({ store, path, onClose }: { store: SessionStore; path: readonly string[]; onClose: () => void }) {
  const [format, setFormat] = useState("html");
  const [all, setAll] = useState(true);
  const [formats, setFormats] = useState<{ id: string; label: string }[]>([]);
  const [finds, setFinds] = useState<Find[]>();
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [losses, setLosses] = useState<[WireLoss, number][]>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    void get<{ wires: { id: string; label: string }[]; files: { id: string; label: string; canWrite: boolean }[] }>("/api/dialects").then((answer) =>
      setFormats([...answer.files.filter((one) => one.canWrite), ...answer.wires]),
    );
  }, []);
  const scope = all ? { all: true } : { to: path.at(-1) };
  const asked = PICTURES.includes(format) ? "rows" : format;
  useEffect(() => {
    const abort = new AbortController(); // the finds of another format say nothing about this one
    setFinds(undefined);
    setProblem(undefined);
    post<{ finds: Find[]; bytes: number }>(`/api/sessions/${store.key}/export/scan`, { format: asked, ...scope }).then(
      (answer) => {
        if (abort.signal.aborted) return;
        if (answer.bytes === 0) return setProblem(format === "preferences" ? "There are no pairs: no two answers to the same message are rated differently." : "There is nothing to save.");
        setFinds(answer.finds);
        setHidden(new Set(answer.finds.filter((find) => find.suggested).map((find) => find.id)));
      },
      (error: Error) => abort.signal.aborted || setProblem(error.message),
    );
    return () => abort.abort();
  }, [store, format, all]); // eslint-disable-line
  const isDialect = formats.some((one) => one.id === format);
  useEffect(() => {
    setLosses(undefined);
    if (!isDialect) return;
    const abort = new AbortController();
    post<{ losses?: WireLoss[] }>(`/api/sessions/${store.key}/export/losses`, { format, ...scope }).then((answer) => abort.signal.aborted || setLosses(grouped(answer.losses ?? [])), (error: Error) => abort.signal.aborted || setProblem(error.message));
    return () => abort.abort();
  }, [store, format, all, isDialect]); // eslint-disable-line
  const save = async () => {
    try {
      const file = await download(`/api/sessions/${store.key}/export`, { format: asked, ...scope, redact: [...hidden] });
      if (asked !== format) Object.assign(file, { data: await drawn(file.data, format), name: file.name.replace(/json$/, format) });
      const link = document.createElement("a");
      link.href = URL.createObjectURL(file.data);
      link.download = file.name;
      link.click();
      window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
      onClose();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const toggle = (id: string) => setHidden((before) => { const after = new Set(before); if (!after.delete(id)) after.add(id); return after; });
  return (
    <Dialog title="Export" onClose={onClose} wide>
      <div className="finder">
        <select className="field" value={format} onChange={(event) => setFormat(event.target.value)} aria-label="format">
          <option value="html">One HTML file, with search and branches</option><option value="markdown">Markdown</option><option value="json">Canonical JSON</option><option value="svg">Picture of the tree, SVG</option><option value="png">Picture of the tree, PNG</option><option value="preferences">Preference pairs</option>
          {formats.map((one) => <option key={one.id} value={one.id}>{one.label}</option>)}
        </select>
        <label className="opt"><input type="checkbox" checked={all} onChange={(event) => setAll(event.target.checked)} />All branches</label>
      </div>
      {finds === undefined && problem === undefined && <p className="dim">Looking for secrets and personal data…</p>}
      {finds !== undefined && (
        <section aria-label="finds">
          <p>{finds.length === 0 ? "No keys, tokens or personal data found." : `${plural(finds.length, "possible secret")} found. Ticked ones are replaced.`}</p>
          <ul className="finds">{finds.map((find) => (
            <li key={find.id}><label><input type="checkbox" checked={hidden.has(find.id)} onChange={() => toggle(find.id)} /><span className="chip warn">{find.kind}</span><code><span className="dim">{find.before}</span><mark>{find.text}</mark><span className="dim">{find.after}</span></code><span className="path">{find.where}</span></label></li>
          ))}</ul>
        </section>
      )}
      {isDialect && (
        <section aria-label="losses">
          <p>{losses === undefined ? "Looking for what this format cannot hold…" : losses.length === 0 ? "Nothing is lost in this format." : "This format cannot hold everything:"}</p>
          <ul className="finds">{losses?.map(([loss, count]) => (
            <li key={loss.n}><div className="kind"><Loss severity={loss.severity}>{loss.severity}</Loss><p>{loss.what}: {loss.why}</p><span className="path">{count > 1 ? `${plural(count, "place")}, first ${loss.path}` : loss.path}</span></div></li>
          ))}</ul>
        </section>
      )}
      {problem !== undefined && <p className="err" role="alert"><Icon name="alert" />{problem}</p>}
      <footer><Button label="Cancel" kind="bare" onClick={onClose} /><Button icon="export" label="Save" kind="go" disabled={finds === undefined} onClick={() => void save()} /></footer>
    </Dialog>
  );
}
