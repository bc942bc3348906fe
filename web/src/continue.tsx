/** Going on: the words, then what they will not read, then the button. The losses stand between the words and Send. */

import { useEffect, useMemo, useRef, useState } from "react";

import { get, post, upload } from "./http";
import { pretty } from "./blocks";
import { cost, plural, tokens } from "./format";
import { Icon } from "./icons";
import { hasSingleKeys } from "./keys";
import { nextLink } from "./links";
import { Button, Loss } from "./parts";
import { oneLine, visible } from "./plain";
import type { SessionStore } from "./store";
import type { Approval, EntryView, Handover, Model, Run, Tool } from "./types";

type Props = { store: SessionStore; /** Where it goes on. */ selected?: string; path: readonly string[]; open: boolean; edit?: boolean; write: boolean; onOpen: () => void; onClose: () => void; onSelect: (id: string) => void };
const OFFERED = ".menu button.row:not(:disabled)";
type Attached = { sha256: string; mimeType: string; name: string };

export function Composer({ store, selected, path, open, edit: wantsEdit = false, write, onOpen, onClose, onSelect }: Props) {
  const [text, setText] = useState("");
  const [models, setModels] = useState<Model[]>([]);
  const [chosen, setChosen] = useState<string[]>([]);
  const [filter, setFilter] = useState("");
  const [handover, setHandover] = useState<Handover>();
  const [keepThinking, setKeepThinking] = useState(false);
  const [tools, setTools] = useState<Tool[]>([]);
  const [lends, setLends] = useState(true);
  const [edit, setEdit] = useState(false);
  const [files, setFiles] = useState<Attached[]>([]);
  const [problem, setProblem] = useState<string>();
  const [sending, setSending] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const row = selected === undefined ? undefined : store.tree.rows.get(selected);
  const number = store.tree.number(path, selected);
  const runs = [...store.runs.values()].filter((run) => run.state === "running" || run.state === "waiting" || run.state === "starting");

  useEffect(() => {
    if (!open || models.length > 0) return;
    void get<{ models: Model[] }>("/api/models", { limit: 400 }).then((answer) => {
      setModels(answer.models);
      const used = answer.models.find((model) => model.used && model.ready) ?? answer.models.find((model) => model.ready && !model.provider.includes("debug")) ?? answer.models.find((model) => model.provider === "debug");
      if (used !== undefined) setChosen((now) => (now.length > 0 ? now : [used.name]));
    }, (error: Error) => setProblem(error.message));
    void get<{ tools: Tool[] }>("/api/tools").then((answer) => setTools(answer.tools), (error: Error) => setProblem(error.message));
  }, [open, models.length]);
  useEffect(() => {
    if (open) area.current?.focus();
  }, [open]);
  const thinking = keepThinking ? "text" : "drop";
  const lent = lends && tools.length > 0 ? { tools: tools.map((tool) => tool.name) } : {};
  useEffect(() => {
    if (!open || chosen.length === 0 || selected === undefined) return setHandover(undefined);
    const timer = window.setTimeout(() => {
      post<Handover>(`/api/sessions/${store.key}/handover`, { to: edit ? row?.parent : selected, models: chosen, text: text.slice(0, 10_000), thinking, ...lent }).then(setHandover, (error: Error) => setProblem(error.message));
    }, 200);
    return () => window.clearTimeout(timer);
  }, [open, chosen, selected, thinking, edit, lends, tools]); // eslint-disable-line

  const finder = useRef<HTMLInputElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const add = (name: string) => {
    setChosen([...new Set([...chosen, name])].slice(0, 8));
    setFilter("");
    finder.current?.focus(); // for the next one
  };
  const refused = (handover?.models ?? []).filter((model) => model.refuses.length > 0 && chosen.includes(model.model));
  const send = async () => {
    if (chosen.length === 0 || sending || refused.length > 0) return;
    setSending(true);
    setProblem(undefined);
    try {
      const content = files.length === 0 ? undefined : [...files.map((file) => ({ type: file.mimeType.startsWith("image/") ? "image" : file.mimeType.startsWith("audio/") ? "audio" : "document", upload: file.sha256, mimeType: file.mimeType, title: file.name })), ...(text === "" ? [] : [{ type: "text", text }])];
      const answer = await post<{ prompt?: string; linked?: true; session: { key: string }; runs: Run[] }>(`/api/sessions/${store.key}/runs`, {
        ...(edit && selected !== undefined ? { replaces: selected } : { from: selected }),
        ...(content === undefined ? (text === "" ? {} : { text }) : { content }),
        models: chosen,
        thinking,
        ...lent,
        key: crypto.randomUUID(),
      });
      setText("");
      setFiles([]);
      setEdit(false);
      onClose();
      if (answer.prompt !== undefined) {
        onSelect(answer.prompt);
        if (chosen.length === 1) store.sent.add(answer.prompt);
      }
    } catch (error) {
      setProblem((error as Error).message);
    } finally {
      setSending(false);
    }
  };
  /** Editing begins with all of the words, however long they are. */
  const editing = async (on: boolean) => {
    setEdit(on);
    if (!on || text !== "" || selected === undefined) return;
    try {
      const entry = await get<EntryView>(`/api/sessions/${store.key}/entries/${encodeURIComponent(selected)}`);
      const parts = await Promise.all(entry.message.content.map(async (block, at) => {
        if (block.type !== "text") return [];
        if (block.more === undefined) return [block.text];
        return [(await get<{ text: string }>(`/api/sessions/${store.key}/entries/${encodeURIComponent(selected)}/text`, { block: at, offset: 0, limit: 32_000_000 })).text];
      }));
      setText((now) => (now === "" ? parts.flat().join("\n\n") : now));
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  useEffect(() => {
    if (open && wantsEdit && row?.role === "user") void editing(true);
  }, [open, wantsEdit]); // eslint-disable-line
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const [one] = store.waiting.values();
      // A key that is held, or meant for what stands before the question, answers nothing.
      if (event.repeat || event.altKey || !hasSingleKeys() || document.querySelector("dialog[open]") !== null) return;
      if (one === undefined || event.metaKey || event.ctrlKey || (event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName))) return;
      if (event.key !== "y" && event.key !== "n" && event.key !== "a") return;
      answer(one, { allow: event.key !== "n", always: event.key === "a" && one.pattern !== undefined });
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [store]);
  const attach = async (list: readonly File[]) => {
    for (const file of list) {
      try {
        const kept = await upload<{ sha256: string; mimeType: string }>(`/api/uploads?type=${encodeURIComponent(file.type)}`, file);
        setFiles((before) => [...before, { ...kept, name: file.name }]);
      } catch (error) {
        setProblem(`${file.name}: ${(error as Error).message}`);
      }
    }
  };
  const answer = (one: Approval, given: { allow: boolean; always?: boolean }) => void post(`/api/runs/${one.run}/approve`, { callId: one.callId, ...given }).catch((error: Error) => store.fail(error));
  // A name that begins with the words comes before one that only has them: Enter takes the first.
  const shown = useMemo(() => {
    const words = filter.toLowerCase();
    const place = ({ name }: Model) => (name.toLowerCase() === words ? 0 : name.toLowerCase().startsWith(words) ? 1 : 2);
    return models.filter((model) => model.name.toLowerCase().includes(words) && !chosen.includes(model.name)).sort((a, b) => place(a) - place(b)).slice(0, 60);
  }, [models, filter, chosen]);

  return (
    <div className={`say-next ${open ? "open" : ""}`}>
      {[...store.waiting.values()].map((one) => (
        <div key={`${one.run} ${one.callId}`} className="ask" role="alertdialog" aria-label="approval">
          <div className="h"><Icon name="alert" /><span><b>{oneLine(one.tool)}</b> needs your approval</span><span className="dim">{visible(one.reason)}</span></div>
          <pre>{pretty(one.arguments)}</pre>
          <div className="do">
            <Button label="Allow" kind="go" small keys="y" onClick={() => answer(one, { allow: true })} />
            {one.pattern !== undefined && <Button label={`Always allow ${visible(one.pattern)}`} small keys="a" onClick={() => answer(one, { allow: true, always: true })} />}
            <Button label="Deny" small keys="n" onClick={() => answer(one, { allow: false })} />
          </div>
        </div>
      ))}
      {runs.map((run) => <Running key={run.id} run={run} />)}
      {!open ? (
        <button type="button" className="box closed" onClick={onOpen} disabled={!write || (row === undefined && !store.loaded)} title={write ? undefined : "this key has read access only"}>
          <span className="dim">{write ? (row === undefined ? (store.loaded ? "Write the first message" : "Loading…") : `Continue from message ${number}, or edit it and branch`) : "Read-only"}</span>
          <span className="btn go icon"><Icon name="send" /></span>
        </button>
      ) : (
        <div className="sheet" role="form" aria-label="continue" onKeyDown={(event) => { if (event.key === "Enter" && (event.metaKey || event.ctrlKey) && !(event.target instanceof HTMLButtonElement)) void send(); }}>
          <textarea ref={area} className="t" dir="auto" value={text} rows={3} placeholder={edit ? "The edited message" : row?.role === "user" ? "Leave empty to answer this message again" : "Write a message"} onChange={(event) => setText(event.target.value)} aria-label="your message" />
          <div className="f">
            <Button icon="attach" label="Attach" kind="bare" small onClick={() => picker.current?.click()} />
            <input ref={picker} type="file" multiple hidden aria-label="attach files" onChange={(event) => { void attach([...(event.target.files ?? [])]); event.target.value = ""; }} />
            {tools.length > 0 && <label className="opt" title={tools.map((tool) => tool.name).join(", ")}><input type="checkbox" checked={lends} onChange={(event) => setLends(event.target.checked)} />{plural(tools.length, "tool")}{tools.some((tool) => tool.asks) ? ", ask first" : ""}</label>}
            {files.map((file) => <span key={file.sha256} className="chip">{file.name}<button type="button" aria-label={`remove ${file.name}`} onClick={() => setFiles((now) => now.filter((one) => one !== file))}><Icon name="x" /></button></span>)}
            {row?.role === "user" && <label className="opt"><input type="checkbox" checked={edit} onChange={(event) => void editing(event.target.checked)} />edit message {number} and branch</label>}
          </div>
          <div className="models" onKeyDown={(event) => nextLink(event, `.models ${OFFERED}`)}>
            <div className="picked">
              {chosen.map((name) => <span key={name} className="chip branch" aria-current>{name}<button type="button" aria-label={`remove ${name}`} onClick={() => { setChosen(chosen.filter((one) => one !== name)); finder.current?.focus(); }}><Icon name="x" /></button></span>)}
              <input className="field" value={filter} onChange={(event) => setFilter(event.target.value)} onKeyDown={(event) => { if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) document.querySelector<HTMLElement>(`.models ${OFFERED}`)?.click(); }} ref={finder} placeholder={chosen.length > 0 ? "add a model" : "choose a model"} aria-label="find a model" />
            </div>
            {filter !== "" && (
              <ul className="menu">
                {shown.map((model) => (
                  <li key={model.name}><button type="button" className="row" disabled={!model.ready} onClick={() => add(model.name)}>
                    <b className="cut">{model.name}</b><span className="dim push">{model.ready ? [model.window === undefined ? undefined : tokens(model.window), model.price === undefined ? "price unknown" : `$${model.price.input} / $${model.price.output}`].filter(Boolean).join(" · ") : (model.why ?? "no key")}</span>
                  </button></li>
                ))}
                {/.\/./.test(filter) && !models.some((model) => model.name === filter) && (
                  <li><button type="button" className="row" onClick={() => add(filter)}><b className="cut">{filter}</b><span className="dim push">use this name</span></button></li>
                )}
                {shown.length === 0 && !filter.includes("/") && <li className="dim">No model matches.</li>}
              </ul>
            )}
          </div>
          {handover !== undefined && <Losses handover={handover} />}
          {handover !== undefined && handover.causes.some((cause) => /think|reason/i.test(cause.what)) && <label className="opt pad"><input type="checkbox" checked={keepThinking} onChange={(event) => setKeepThinking(event.target.checked)} />Send the thinking of other models as text</label>}
          {refused.map((model) => <div key={model.model} className="err" role="alert"><Icon name="alert" /><div><b>{model.model.split("/").at(-1)} would refuse this</b>{model.refuses.map((one) => <p key={one.n}>{one.message}; {one.remedy}</p>)}</div></div>)}
          {problem !== undefined && <p className="err" role="alert"><Icon name="alert" />{problem}</p>}
          <footer>
            {handover !== undefined && <span className="dim">Reads {plural(handover.reads.messages, "message")}, about {tokens(handover.reads.tokens)} tokens</span>}
            <span className="push" />
            <Button label="Cancel" kind="bare" onClick={onClose} />
            <Button icon="send" label={chosen.length > 1 ? `Send to ${chosen.length} models` : "Send"} kind="go" disabled={chosen.length === 0 || sending || refused.length > 0} onClick={() => void send()} keys="Ctrl Enter" />
          </footer>
        </div>
      )}
    </div>
  );
}

function Losses({ handover }: { handover: Handover }) {
  const { causes, models } = handover;
  if (causes.length === 0)
    return <p className="pad dim"><Icon name="check" className="s" /> Nothing is lost.{models.some((model) => model.cost !== undefined) && ` The input costs about ${cost(models.reduce((sum, model) => sum + (model.cost ?? 0), 0))}.`}</p>;
  return (
    <table aria-label="losses">
      <thead><tr><th>What will not be read</th>{models.map((model) => <th key={model.model}>{model.model.split("/").at(-1)}</th>)}</tr></thead>
      <tbody>
        {causes.map((cause) => (
          <tr key={cause.label}>
            <td>{cause.label}{cause.why !== undefined && <span className="sub">{cause.why}</span>}</td>
            {models.map((model) => { const by = cause.by[model.model]; return <td key={model.model} data-model={model.model.split("/").at(-1)}>{by === undefined ? <span className="kept"><Icon name="check" />kept</span> : <Loss severity={by.severity}>{by.count} {by.severity}</Loss>}</td>; })}
          </tr>
        ))}
        <tr className="sum"><td>Reads</td>{models.map((model) => <td key={model.model} data-model={model.model.split("/").at(-1)}>{tokens(model.tokens)}{model.window === undefined ? "" : ` of ${tokens(model.window)}`}{model.fits ? "" : <Loss severity="dropped">does not fit</Loss>}<span className="sub">{cost(model.cost)}</span></td>)}</tr>
      </tbody>
    </table>
  );
}

function Running({ run }: { run: Run }) {
  const [steer, setSteer] = useState("");
  return (
    <div className="running">
      <i className="pulse" /><b>{run.model}</b><span className="dim">{run.state}{run.cost === undefined ? "" : ` · ${cost(run.cost)}`}</span>
      <form onSubmit={(event) => { event.preventDefault(); if (steer !== "") void post(`/api/runs/${run.id}/steer`, { text: steer }).then(() => setSteer("")); }}><input className="field" value={steer} onChange={(event) => setSteer(event.target.value)} placeholder="Add an instruction" aria-label="instruction" /></form>
      <Button icon="stop" label="Stop" kind="stop" small onClick={() => void post(`/api/runs/${run.id}/stop`)} />
    </div>
  );
}
