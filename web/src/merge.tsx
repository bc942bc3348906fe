/** Merge branches into one: what comes of them is a message with several parents, or one that goes on alone. */

import { useState } from "react";

import { post } from "./http";
import { Dialog } from "./dialog";
import { Icon } from "./icons";
import { Button } from "./parts";
import type { SessionStore } from "./store";
import type { Row } from "./types";

const STRATEGIES: [string, string][] = [
  ["explicit", "one message with all of them as parents"],
  ["linear", "one message after the target only"],
  ["squash", "one message with the texts of the others"],
];

export default function Merge({ store, path, onClose, onSelect }: { store: SessionStore; path: readonly string[]; onClose: () => void; onSelect: (entry: string) => void }) {
  const { branches } = store.tree;
  const [into, setInto] = useState(() => branches.find((one) => path.includes(one.head))?.name ?? branches[0]?.name ?? "");
  const [from, setFrom] = useState<ReadonlySet<string>>(new Set());
  const [strategy, setStrategy] = useState("explicit");
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<string>();
  const sources = branches.filter((one) => one.name !== into && from.has(one.name)).map((one) => one.name);
  const ready = sources.length > 0 && (text.trim() !== "" || strategy === "squash");
  const save = () =>
    void post<Row>(`/api/sessions/${store.key}/merge`, { into, from: sources, strategy, ...(text.trim() === "" ? {} : { message: { role: "user", content: text } }) }).then(
      (made) => { onClose(); onSelect(made.id); },
      (error: Error) => setProblem(error.message),
    );
  const toggle = (name: string) => setFrom((before) => { const after = new Set(before); if (!after.delete(name)) after.add(name); return after; });
  if (branches.length < 2) return <Dialog title="Merge branches" onClose={onClose}><p className="dim">Merging needs two named branches. Press b to name the current path.</p></Dialog>;
  return (
    <Dialog title="Merge branches" onClose={onClose}>
      <form className="merging" onSubmit={(event) => { event.preventDefault(); if (ready) save(); }}>
        <label>Into <select className="field" value={into} onChange={(event) => setInto(event.target.value)}>{branches.map((one) => <option key={one.name}>{one.name}</option>)}</select></label>
        <fieldset><legend>From</legend>{branches.filter((one) => one.name !== into).map((one) => <label key={one.name} className="opt"><input type="checkbox" checked={from.has(one.name)} onChange={() => toggle(one.name)} />{one.name}</label>)}</fieldset>
        <label>As <select className="field" value={strategy} onChange={(event) => setStrategy(event.target.value)}>{STRATEGIES.map(([value, label]) => <option key={value} value={value}>{label}</option>)}</select></label>
        <textarea className="field" rows={3} value={text} onChange={(event) => setText(event.target.value)} placeholder={strategy === "squash" ? "Leave empty to use their messages" : "The message that merges these branches"} aria-label="merge message" />
        {problem !== undefined && <p className="err" role="alert"><Icon name="alert" />{problem}</p>}
        <footer><Button label="Cancel" kind="bare" onClick={onClose} /><Button icon="merge" label="Merge" kind="go" disabled={!ready} onClick={save} /></footer>
      </form>
    </Dialog>
  );
}
