/** Stored, sent, and every loss between: the request as any dialect would send it. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";

import { get } from "./api";
import { bytes, plural } from "./format";
import { Icon } from "./icons";
import { Loss } from "./parts";
import { visible } from "./plain";
import { setQuery, useRoute } from "./route";
import type { SessionStore } from "./store";
import type { WireLine, WireLoss, WireView } from "./types";

export default function Wire({ store, path, selected }: { store: SessionStore; path: readonly string[]; selected?: string }) {
  const route = useRoute();
  const [dialects, setDialects] = useState<{ wires: { id: string; label: string }[] }>({ wires: [] });
  const as = route.query.get("as") ?? "anthropic-messages";
  const [view, setView] = useState<WireView>();
  const [problem, setProblem] = useState<string>();
  const [chosen, setChosen] = useState<number>();
  useEffect(() => void get<{ wires: { id: string; label: string }[] }>("/api/dialects").then(setDialects, () => undefined), []);
  useEffect(() => {
    const abort = new AbortController();
    setProblem(undefined);
    get<WireView>(`/api/sessions/${store.key}/wire`, { to: selected ?? path.at(-1), as }, abort.signal).then(setView, (error: Error) => abort.signal.aborted || setProblem(error.message));
    return () => abort.abort();
  }, [store, selected, path, as]);
  const losses = useMemo(() => (view?.losses ?? []).filter((loss) => loss.severity !== "record"), [view]);
  const ghosts = useMemo(() => {
    const found = new Map<number, WireLoss[]>();
    for (const loss of losses) if (loss.ghost !== undefined) found.set(Number(loss.ghost), [...(found.get(Number(loss.ghost)) ?? []), loss]);
    return found;
  }, [losses]);
  const sent = useMemo(() => {
    const lines: (WireLine | { ghost: WireLoss })[] = [];
    (view?.sent ?? []).forEach((line, at) => {
      for (const loss of ghosts.get(at) ?? []) lines.push({ ghost: loss });
      lines.push(line);
    });
    return lines;
  }, [view, ghosts]);
  return (
    <div className="work wirework">
      <div className="bar">
        <span>Sent as</span>
        <select className="field" value={as} onChange={(event) => setQuery({ as: event.target.value })} aria-label="dialect">{dialects.wires.map((one) => <option key={one.id} value={one.id}>{one.label}</option>)}</select>
        {view !== undefined && <><span className="dim">{bytes(view.bytes)}{view.mediaBytes > 0 ? ` and ${bytes(view.mediaBytes)} of media` : ""}</span>{view.back && <span className="chip line"><Icon name="check" />comes back value for value</span>}</>}
        <span className="push" />
        <Loss severity="dropped">{losses.filter((loss) => loss.severity === "dropped").length} dropped</Loss>
        <Loss severity="weakened">{losses.filter((loss) => loss.severity === "weakened").length} weakened</Loss>
        {view !== undefined && view.hidden > 0 && <span className="dim">{plural(view.hidden, "record")} of bookkeeping</span>}
      </div>
      {problem !== undefined && <p className="err" role="alert"><Icon name="alert" />{problem}</p>}
      <div className="heads"><div><b>Stored</b><span className="dim">never changed by sending</span></div><div><b>Sent</b><span className="dim">{as}</span></div><div><b>What is lost, and why</b></div></div>
      <div className="cols">
        <Lines lines={view?.stored ?? []} losses={losses} chosen={chosen} onChoose={setChosen} />
        <Lines lines={sent} losses={losses} chosen={chosen} onChoose={setChosen} />
        <section className="whylist" aria-label="losses">
          {losses.length === 0 && view !== undefined && <p className="empty"><Icon name="check" /> Nothing is lost on the way to this wire.</p>}
          {losses.map((loss) => (
            <button key={loss.n} type="button" className={`w ${chosen === loss.n ? "open" : ""}`} onClick={() => setChosen(loss.n)}>
              <span className="n">{loss.n}</span><Loss severity={loss.severity}>{loss.what}</Loss>
              <code className="p cut">{visible(loss.path)}</code><span className="y">{visible(loss.why)}</span>
              {chosen === loss.n && loss.keptBy !== undefined && loss.keptBy.length > 0 && <span className="y">kept by {loss.keptBy.join(", ")}</span>}
            </button>
          ))}
        </section>
      </div>
    </div>
  );
}

/** One line of JSON: keys, numbers, strings. */
function Json({ text }: { text: string }) {
  const key = /^"(?:[^"\\]|\\.)*"(?=: )/.exec(text)?.[0];
  const rest = key === undefined ? text : text.slice(key.length + 2);
  const kind = /^-?[\d.]|^(true|false|null)/.test(rest) ? "nu" : rest.startsWith('"') ? "st" : "pn";
  return <>{key !== undefined && <><span className="k">{visible(key)}</span><span className="pn">: </span></>}<span className={kind}>{visible(rest)}</span></>;
}

function Lines({ lines, losses, chosen, onChoose }: { lines: readonly (WireLine | { ghost: WireLoss })[]; losses: readonly WireLoss[]; chosen?: number; onChoose: (n: number) => void }) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: lines.length, getScrollElement: () => scroller.current, estimateSize: () => 22, overscan: 30 });
  const marked = useMemo(() => new Map(losses.map((loss) => [loss.n, loss])), [losses]);
  useEffect(() => {
    if (chosen === undefined) return;
    const at = lines.findIndex((line) => ("ghost" in line ? line.ghost.n === chosen : line.loss?.includes(chosen)));
    if (at >= 0) virtual.scrollToIndex(at, { align: "center" });
  }, [chosen]); // eslint-disable-line
  return (
    <div className="json" ref={scroller} tabIndex={0}>
      <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {virtual.getVirtualItems().map((item) => {
          const line = lines[item.index]!;
          const style = { position: "absolute" as const, top: item.start, left: 0, right: 0 };
          if ("ghost" in line)
            return <div key={item.key} className={`ln ghost ${chosen === line.ghost.n ? "sel" : ""}`} style={style} onClick={() => onChoose(line.ghost.n)}><span className="no" /><code>{line.ghost.what} is not sent</code><Loss severity={line.ghost.severity}>{line.ghost.n}</Loss></div>;
          const loss = line.loss?.map((n) => marked.get(n)).find((one) => one !== undefined);
          return (
            <div key={item.key} className={`ln ${loss?.severity === "weakened" ? "wk" : ""} ${loss !== undefined && chosen === loss.n ? "sel" : ""}`} style={style} onClick={() => loss !== undefined && onChoose(loss.n)}>
              <span className="no">{item.index + 1}</span><code style={{ paddingLeft: `${line.depth * 14}px` }}><Json text={line.text} /></code>
              {line.cut !== undefined && <span className="blob">{line.cut.toLocaleString()} more</span>}
              {loss !== undefined && <Loss severity={loss.severity}>{loss.n}</Loss>}
            </div>
          );
        })}
      </div>
    </div>
  );
}
