/** Content blocks, drawn. Nothing here runs or fetches what a message holds: text is text, remote media wait to be asked for. */

import Anser from "anser";
import { createContext, lazy, Suspense, useContext, useMemo, useState } from "react";

import { parse } from "./exact";
import { get } from "./http";
import { bytes, duration, plural } from "./format";
import { Icon } from "./icons";
import { oneLine, visible } from "./plain";
import { toolDisplay, toolIcon } from "./parts";
import type { BlockView, EntryView, Media, Row, ToolCallBlock } from "./types";

const Markdown = lazy(() => import("./markdown"));
const LINES = 12;
const CHARS = 4000;

/** What is folded until it is asked for; on paper everything is unfolded. */
export const Unfolded = createContext(false);
/** The block that the address names: it is unfolded until the reader folds it. */
export const Linked = createContext<{ entry: string; block: number } | undefined>(undefined);

function useFold(first = false, where?: Where): [boolean, (open: boolean) => void] {
  const [choice, setChoice] = useState<boolean>();
  return [useContext(Unfolded) || (choice ?? (useLinked(where) || first)), setChoice];
}

function useLinked(where?: Where): boolean {
  const linked = useContext(Linked);
  return where !== undefined && linked?.entry === where.entry && linked.block === where.block;
}

/** A place in a session. `nth`: which of several calls with one id in the same answer this is. */
export type Where = { session: string; entry: string; block: number; nth?: number };

export function Block({ block, where, results }: { block: BlockView; where: Where; results?: Results }) {
  switch (block.type) {
    case "text":
      return (
        <div className={block.refusal ? "refusal" : undefined}>
          <Prose text={block.text} />
          <Rest more={block.more} where={where} shown={block.text.length} />
          {block.citations !== undefined && block.citations.length > 0 && (
            <ul className="cites">
              {block.citations.map((one, at) => (
                <li key={at}><Icon name="link" className="xs" /> {visible(one.title ?? one.url ?? "source")}{one.url !== undefined && one.title !== undefined && <span className="dim"> {visible(one.url)}</span>}</li>
              ))}
            </ul>
          )}
        </div>
      );
    case "thinking":
      return <Thinking text={block.text} signed={block.signed} redacted={block.redacted} more={block.more} where={where} />;
    case "toolCall":
      return <Call block={block} where={where} results={results} />;
    case "image":
      return <Picture media={block} />;
    case "audio":
      return <Sound media={block} transcript={block.transcript} />;
    case "document":
      return <Document media={block} title={block.title} text={block.text} more={block.more} where={where} />;
    case "serverToolCall":
      return <Raw title={`${block.name} (run by the provider)`} value={block.arguments} more={block.more} where={where} icon={toolIcon(block.name)} />;
    case "serverToolResult":
      return <Raw title={`${block.toolName}: result`} value={block.content} more={block.more} where={where} icon="record" bad={block.isError} />;
    case "opaque":
      return <Raw title={`${block.name ?? "Block"} of ${block.dialect}`} value={block.value} more={block.more} where={where} icon="record" open />;
    default:
      return <Raw title="Unknown block" value={block} where={where} icon="record" open />;
  }
}

/** The blocks of a message; neighbouring calls share one border. */
export function Blocks({ content, session, entry, results }: { content: readonly BlockView[]; session: string; entry: string; results?: Results }) {
  const linked = useContext(Linked);
  const seen = new Map<string, number>();
  const groups: { call: boolean; blocks: [BlockView, Where][] }[] = [];
  content.forEach((block, at) => {
    const call = block.type === "toolCall";
    const nth = call ? (seen.get(block.id) ?? 0) : 0;
    if (call) seen.set(block.id, nth + 1);
    const item: [BlockView, Where] = [block, { session, entry, block: at, nth }];
    if (call && groups.at(-1)?.call) groups.at(-1)!.blocks.push(item);
    else groups.push({ call, blocks: [item] });
  });
  return (
    <>
      {groups.map(({ call, blocks }, at) => {
        const drawn = blocks.map(([block, where]) => <div key={where.block} className={linked?.entry === entry && linked.block === where.block ? "block linked" : "block"} data-block={where.block}><Block block={block} where={where} results={results} /></div>);
        return call ? <div key={at} className="calls">{drawn}</div> : drawn;
      })}
    </>
  );
}

export function Prose({ text }: { text: string }) {
  if (text.length > 200_000) return <pre className="plain">{visible(text)}</pre>;
  return (
    <div className="prose">
      <Suspense fallback={<p className="pre">{visible(text)}</p>}>
        <Markdown text={text} />
      </Suspense>
    </div>
  );
}

function Rest({ more, where, shown }: { more?: number; where: Where; shown: number }) {
  const [rest, setRest] = useState("");
  const [left, setLeft] = useState(more ?? 0);
  if (more === undefined || (left === 0 && rest === "")) return null;
  const load = async () => {
    const answer = await get<{ text: string; offset: number; total: number }>(
      `/api/sessions/${where.session}/entries/${encodeURIComponent(where.entry)}/text`,
      { block: where.block, offset: shown + rest.length, limit: 200_000 },
    );
    setRest(rest + answer.text);
    setLeft(Math.max(0, answer.total - answer.offset - answer.text.length));
  };
  return (
    <>
      {rest !== "" && <pre className="plain">{visible(rest)}</pre>}
      {left > 0 && (
        <button type="button" className="btn small" onClick={() => void load()}>Show {left.toLocaleString()} more characters</button>
      )}
    </>
  );
}

export function Thinking(props: { text: string; signed?: boolean; redacted?: boolean; more?: number; where: Where; ms?: number; open?: boolean }) {
  const [open, setOpen] = useFold(props.open, props.where);
  const label = props.redacted ? "Thought, encrypted by the provider" : props.ms === undefined ? "Thought" : `Thought for ${duration(props.ms)}`;
  return (
    <div>
      <button type="button" className="think" aria-expanded={open} onClick={() => setOpen(!open)} disabled={props.text === ""}>
        <Icon name="think" />
        {label}
        {props.signed && <span className="chip line">signed</span>}
        {props.redacted && <span className="chip line">encrypted</span>}
        {props.text !== "" && <Icon name={open ? "down" : "right"} className="xs" />}
      </button>
      {open && (
        <div className="thinkbox">
          <p className="pre">{visible(props.text)}</p>
          <Rest more={props.more} where={props.where} shown={props.text.length} />
        </div>
      )}
    </div>
  );
}

/** What came of the calls of one answer, on the path that is shown. */
export type Results = {
  row(call: string, nth: number): Row | undefined;
  entry(call: string, nth: number): EntryView | undefined;
  state(call: string): { state: string; text?: string; ms?: number } | undefined;
};

/** As `DESCRIPTIVE` of the server, which writes the rows of the cards. */
const TELLING = ["command", "cmd", "pattern", "query", "path", "file_path", "filePath", "url", "prompt", "description", "name"];

export function telling(argument: unknown): string {
  if (typeof argument !== "object" || argument === null) return argument === undefined ? "" : oneLine(String(argument).slice(0, 160));
  const fields = argument as Record<string, unknown>;
  const key = TELLING.find((name) => typeof fields[name] === "string") ?? Object.keys(fields).find((name) => typeof fields[name] === "string");
  return key === undefined ? "" : oneLine(String(fields[key]).split("\n")[0]!.slice(0, 160));
}

function Call({ block, where, results }: { block: ToolCallBlock; where: Where; results?: Results }) {
  const [open, setOpen] = useFold(false, where);
  const linked = useLinked(where);
  const unfolded = useContext(Unfolded);
  const row = results?.row(block.id, where.nth ?? 0);
  const answer = open ? results?.entry(block.id, where.nth ?? 0) : undefined;
  const state = results?.state(block.id);
  const failed = row?.call?.error === true;
  const waits = state?.state === "waiting" && row === undefined;
  const running = state?.state === "running" && row === undefined;
  return (
    <>
      <button type="button" className={`call ${failed ? "bad" : ""}`} aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={toolIcon(block.name)} />
        <span className="name">{oneLine(toolDisplay(block.name)?.label ?? block.name) || "…"}</span>
        <span className="arg cut">{telling(block.parseError === undefined ? block.arguments : block.argumentsText)}</span>
        <span className="end">
          {block.parseError !== undefined && <span className="why">malformed arguments</span>}
          {running && <><i className="pulse" /> running</>}
          {waits && <span className="asks">waiting for approval</span>}
          {failed && <span className="why">failed</span>}
          {duration(row?.ms ?? state?.ms)}
          {!running && !failed && row !== undefined && <Icon name="check" />}
          {!running && !waits && row === undefined && results !== undefined && block.parseError === undefined && <span>no result</span>}
          <Icon name={open ? "down" : "right"} />
        </span>
      </button>
      {open && <Arguments block={block} where={where} />}
      {open && row !== undefined && answer === undefined && <div className="callbody dim">{row.text}</div>}
      {open && answer !== undefined && <Unfolded.Provider value={unfolded || linked}><Output entry={answer} session={where.session} /></Unfolded.Provider>}
      {!open && running && state?.text !== undefined && <pre className="callbody">{visible(state.text)}</pre>}
    </>
  );
}

function Arguments({ block, where }: { block: ToolCallBlock; where: Where }) {
  if (block.parseError !== undefined)
    return (
      <div className="callbody malformed">
        <p className="dim">as the model wrote them: {visible(block.parseError)}</p>
        <pre className="fault">{visible(block.argumentsText ?? "")}</pre>
        {block.made !== undefined && <><p className="dim">as they were read; the tool did not run</p><pre>{pretty(block.made)}</pre></>}
      </div>
    );
  const fields = typeof block.arguments === "object" && block.arguments !== null ? Object.entries(block.arguments) : [["", block.arguments] as const];
  return (
    <>
      <dl className="kv">
        {fields.map(([key, value]) => (
          <div key={key} className="pair">
            <dt>{visible(key)}</dt>
            <dd>{typeof value === "string" ? <Lines text={value} /> : <code>{pretty(value)}</code>}</dd>
          </div>
        ))}
      </dl>
      <Rest more={block.more} where={where} shown={20_000} />
    </>
  );
}

export function Output({ entry, session }: { entry: EntryView; session: string }) {
  return (
    <div className="output">
      {entry.message.content.map((block, at) =>
        block.type === "text" ? (
          <div key={at} className="callbody"><Result text={block.text} tool={entry.message.toolName} whole={block.more === undefined} /><Rest more={block.more} where={{ session, entry: entry.id, block: at }} shown={block.text.length} /></div>
        ) : (
          <div key={at} className="callbody"><Block block={block} where={{ session, entry: entry.id, block: at }} /></div>
        ),
      )}
      {entry.message.content.length === 0 && <div className="callbody dim">no output</div>}
    </div>
  );
}

/** The text of a result, as the plugin of its tool wants it drawn. */
function Result({ text, tool, whole }: { text: string; tool?: string; whole: boolean }) {
  const kind = toolDisplay(tool)?.result;
  if (kind === "markdown") return <Prose text={text} />;
  if (kind === "json" && whole) return <Lines text={indented(text)} />;
  return <Lines text={text} ansi diff={kind === "diff"} />;
}

function indented(text: string): string {
  try {
    return JSON.stringify(parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Up to twelve lines, then the true number of the others; diffs and ANSI colours drawn. */
export function Lines({ text, ansi = false, diff = false }: { text: string; ansi?: boolean; diff?: boolean }) {
  const [all, setAll] = useFold();
  const lines = useMemo(() => text.split("\n"), [text]);
  const first = useMemo(() => lines.slice(0, LINES).join("\n"), [lines]);
  const long = first.length > CHARS; // such as JSON on one line
  const shown = all ? lines : long ? first.slice(0, CHARS).split("\n") : lines.slice(0, LINES);
  const isDiff = useMemo(() => diff || lines.length > 2 && lines.some((line) => line.startsWith("@@ ")) && lines.some((line) => /^[+-]/.test(line)), [lines, diff]);
  return (
    <>
      {isDiff ? (
        <div className="fdiff">
          {shown.map((line, at) => (
            <div key={at} className={line.startsWith("@@") ? "hunk" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : ""}>
              <span /> <span>{/^[+-]/.test(line) ? line[0] : ""}</span> <span>{/^[+\- ]/.test(line) ? line.slice(1) : line}</span>
            </div>
          ))}
        </div>
      ) : (
        <pre className="lines">{ansi && text.includes("\u001b") ? <Ansi text={shown.join("\n")} /> : visible(shown.join("\n"))}</pre>
      )}
      {(lines.length > LINES || long) && (
        <button type="button" className={`btn small bare ${all ? "less" : ""}`} onClick={() => setAll(!all)}>
          {all ? "Show less" : long ? `Show ${(text.length - CHARS).toLocaleString()} more characters` : `Show ${plural(lines.length - LINES, "more line")}`}
        </button>
      )}
    </>
  );
}

const HUES: Record<string, string> = {
  "ansi-red": "a-brick", "ansi-bright-red": "a-brick", "ansi-yellow": "a-ochre", "ansi-bright-yellow": "a-ochre",
  "ansi-green": "a-moss", "ansi-bright-green": "a-moss", "ansi-blue": "a-cobalt", "ansi-bright-blue": "a-cobalt",
  "ansi-magenta": "a-cobalt", "ansi-bright-magenta": "a-cobalt", "ansi-cyan": "a-petrol", "ansi-bright-cyan": "a-petrol",
};

function Ansi({ text }: { text: string }) {
  const parts = useMemo(() => Anser.ansiToJson(text, { use_classes: true, remove_empty: true }), [text]);
  return (
    <>
      {parts.map((part, at) => (
        <span key={at} className={`${HUES[part.fg ?? ""] ?? ""} ${part.decorations.includes("bold") ? "a-bold" : ""}`}>{visible(part.content)}</span>
      ))}
    </>
  );
}

export function Picture({ media }: { media: Media }) {
  const [broken, setBroken] = useState(false);
  const [large, setLarge] = useState(false);
  if (media.src === undefined || broken) return <Elsewhere media={media} what="image" />;
  return (
    <figure>
      <button type="button" className={`pic ${large ? "large" : ""}`} onClick={() => setLarge(!large)} aria-label="image">
        <img src={media.src} alt="" loading="lazy" decoding="async" onError={() => setBroken(true)} />
      </button>
      <figcaption className="cap">
        <span>{media.mimeType ?? "image"}</span>
        {media.width !== undefined && <span>{media.width} × {media.height}</span>}
        {media.size !== undefined && <span>{bytes(media.size)}</span>}
      </figcaption>
    </figure>
  );
}

function Elsewhere({ media, what }: { media: Media; what: string }) {
  if (media.missing) return <p className="dim">The {what} is missing from the store.</p>;
  if (media.url !== undefined)
    return (
      <p className="remote">
        <Icon name="globe" className="s" /> {what} at <code>{visible(media.url)}</code>. It is not loaded: loading would tell that server who reads this.{" "}
        <a href={/^https?:/i.test(media.url) ? media.url : undefined} target="_blank" rel="noopener noreferrer">Open it elsewhere</a>
      </p>
    );
  return <p className="dim">{what}{media.fileId === undefined ? " cannot be shown" : `, kept by the provider as ${media.fileId}`}</p>;
}

function Sound({ media, transcript }: { media: Media; transcript?: string }) {
  return (
    <div>
      {media.src === undefined ? <Elsewhere media={media} what="audio" /> : <audio controls preload="none" src={media.src} />}
      {transcript !== undefined && <Prose text={transcript} />}
    </div>
  );
}

function Document({ media, title, text, more, where }: { media: Media; title?: string; text?: string; more?: number; where: Where }) {
  return (
    <div className="document">
      <p><Icon name="read" className="s" /> <b>{oneLine(title ?? "document")}</b> <span className="dim">{media.mimeType} {media.size === undefined ? "" : bytes(media.size)}</span>{" "}
        {media.src !== undefined && <a href={media.src} target="_blank" rel="noopener noreferrer">Open</a>}</p>
      {text !== undefined && <div className="callbody"><Lines text={text} /><Rest more={more} where={where} shown={text.length} /></div>}
      {text === undefined && media.src === undefined && <Elsewhere media={media} what="document" />}
    </div>
  );
}

export function Raw({ title, value, more, where, icon, bad, open: first }: { title: string; value: unknown; more?: number; where: Where; icon: string; bad?: boolean; open?: boolean }) {
  const [open, setOpen] = useFold(first, where);
  return (
    <div className="calls">
      <button type="button" className={`call ${bad ? "bad" : ""}`} aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={icon} /><span className="name">{oneLine(title)}</span><span className="end"><Icon name={open ? "down" : "right"} /></span>
      </button>
      {open && <div className="callbody"><Lines text={typeof value === "string" ? value : pretty(value)} /><Rest more={more} where={where} shown={20_000} /></div>}
    </div>
  );
}

export function pretty(value: unknown): string {
  return visible(JSON.stringify(value, null, typeof value === "string" ? undefined : 2) ?? "");
}
