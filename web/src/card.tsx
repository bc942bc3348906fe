/** A message card on the canvas: header, a few lines, its calls. Its height is known before it is drawn. */

import { linesOf } from "./lines";
import { clock, cost, duration, plural } from "./format";
import { Icon } from "./icons";
import { callSummary, Glyph, LossMarks, speaker, toolIcon } from "./parts";
import { CARD } from "./layout";
import type { TreeModel } from "./tree";
import type { LiveNode, Row } from "./types";

const LINE = 17;
const STRIP = 52; // of pictures
const [MIDDLE_TOP, MIDDLE_LINE] = [4, 16]; // as .node.mid has them
export const MAX_CALLS = 4;
const WIDTH = CARD - 50; // of the text: the card without its border, the glyph's column and the right margin
const heights = new WeakMap<Row, number>();

/** Near cards and middle rows stand at the same place, so the height depends on the row alone. */
export function heightOf(row: Row): number {
  const known = heights.get(row);
  if (known !== undefined) return known;
  const mono = row.role === "toolResult";
  let height = 2 + 29 + 9;
  if (row.text !== "") height += linesOf(row.text, WIDTH, mono ? "11px ui-monospace, monospace" : "12px system-ui, sans-serif", 4) * LINE;
  const calls = row.calls?.length ?? 0;
  if (calls > 0) height += Math.min(calls, MAX_CALLS) * 24 + 7 + (calls > MAX_CALLS ? 24 : 0);
  if ((row.images ?? 0) > 0) height += STRIP + 8;
  const wrong = row.stop === "aborted" ? "Stopped" : row.error || row.bad; // an empty error is the text already
  if (wrong !== undefined) height += linesOf(wrong, WIDTH, "12px system-ui, sans-serif", 2) * LINE + 3;
  const made = Math.max(height, 46);
  heights.set(row, made);
  return made;
}

/** The whole lines that a card of this height has room for at the middle level: none is cut through. */
export function middleLines(height: number, grow: number): number {
  return Math.max(1, Math.floor((height - 2 - 2 * MIDDLE_TOP * grow) / (MIDDLE_LINE * grow)));
}

/** While it is written a card keeps one height, so that nothing below it moves with every word. */
export const LIVE_HEIGHT = 2 + 29 + 9 + 4 * LINE;

export function figures(row: Row): string {
  const parts = [];
  if (row.role === "user" || row.role === "system") parts.push(clock(row.at));
  else {
    parts.push(duration(row.ms));
    if (row.role === "assistant" && (row.usage !== undefined || row.cost !== undefined)) parts.push(cost(row.cost));
  }
  return parts.filter((part) => part !== undefined).join(" · ");
}

export type CardState = { pictures?: readonly string[]; onPath: boolean; selected: boolean; /** Of the text at the middle level; undefined at the near one. */ lines?: number; folded?: number; /** Calls that wait for an answer. */ waits?: readonly string[]; findings?: number; losses?: { dropped: number; weakened: number } };

export function Card({ row, state, live, results }: { row: Row; state: CardState; live?: LiveNode; results?: readonly (Row | undefined)[] }) {
  const stopped = row.stop === "aborted";
  const failed = row.call?.error === true || (row.error !== undefined && !stopped);
  if (state.lines !== undefined)
    return (
      <div className={`card node mid ${state.folded === undefined ? "" : "stack"} ${state.onPath ? "" : "off"} ${state.selected ? "sel" : ""}`} style={{ width: CARD, height: live === undefined ? heightOf(row) : LIVE_HEIGHT }}>
        <header><Glyph row={row} /><span className="first" dir="auto" style={{ WebkitLineClamp: state.lines }}>{row.text || callSummary(row)}</span><span className={`figs ${failed ? "failed" : ""}`}>{live !== undefined ? <i className="pulse" /> : failed ? "failed" : figures(row).split(" · ").at(-1)}</span></header>
        {state.folded !== undefined && <span className="folds">{state.folded} folded</span>}
        {(state.findings ?? 0) > 0 && <span className="flag">{state.findings}</span>}
      </div>
    );
  const calls = row.calls ?? [];
  return (
    <div className={`card node ${state.folded === undefined ? "" : "stack"} ${state.onPath ? "" : "off"} ${state.selected ? "sel" : ""}`} style={{ width: CARD, height: live === undefined ? heightOf(row) : LIVE_HEIGHT }}>
      <header>
        <Glyph row={row} />
        <b className="cut">{speaker(row)}</b>
        {row.version !== undefined && <span className="dim">edited</span>}
        <span className="figs">{live !== undefined ? <><i className="pulse" /> writing</> : failed ? <>{row.ms !== undefined && <span>{duration(row.ms)}</span>}<span className="failed">failed</span></> : figures(row)}</span>
      </header>
      {row.text !== "" && <p className={`say ${row.role === "toolResult" ? "mono" : ""} ${row.call?.error ? "failed" : ""}`} dir="auto">{row.text}</p>}
      {(row.images ?? 0) > 0 && <div className="strip">{(state.pictures ?? []).slice(0, 3).map((source) => <img key={source} src={source} alt="" loading="lazy" decoding="async" />)}{(state.pictures ?? []).length === 0 && <span className="dim"><Icon name="image" className="xs" /> {plural(row.images ?? 0, "image")}</span>}</div>}
      {(stopped ? row.error ?? row.bad : row.error || row.bad) !== undefined && <p className={`say two ${stopped ? "dim" : "failed"}`}>{stopped ? "Stopped before it was complete" : row.error || row.bad}</p>}
      {calls.length > 0 && (
        <div className="body"><div className="mini">
          {calls.slice(0, MAX_CALLS).map((call, at) => (
            <div key={`${call.id} ${at}`} className={`call ${results?.[at]?.call?.error || call.bad ? "bad" : ""}`}>
              <Icon name={toolIcon(call.name)} /><span className="name">{call.name}</span><span className="arg cut">{call.arg}</span>
              <span className="end">{state.waits?.includes(call.id) ? <span className="asks">waiting</span> : call.bad ? <span className="why">malformed</span> : results?.[at]?.call?.error ? <span className="why">failed</span> : <>{duration(results?.[at]?.ms)}{results?.[at] !== undefined && <Icon name="check" />}</>}</span>
            </div>
          ))}
          {calls.length > MAX_CALLS && <div className="call dim">{plural(calls.length - MAX_CALLS, "more call")}</div>}
        </div></div>
      )}
      {state.losses !== undefined && <p className="foot"><LossMarks {...state.losses} /></p>}
      {state.folded !== undefined && <span className="folds">{state.folded} folded</span>}
      {(state.findings ?? 0) > 0 && <span className="flag">{state.findings}</span>}
    </div>
  );
}

export type CardData = { row: Row; state: CardState; live?: LiveNode; results: readonly (Row | undefined)[]; pick: (id: string) => void };

/** A card that can be chosen. */
export function CardNode({ data }: { data: CardData }) {
  const { row, state } = data;
  return (
    <div role="button" aria-pressed={state.selected} tabIndex={state.selected ? 0 : -1} data-card={row.id} onClick={() => data.pick(row.id)} onKeyDown={(event) => event.key === "Enter" && data.pick(row.id)}>
      <Card row={row} state={state} live={data.live} results={data.results} />
    </div>
  );
}

/** The results of an answer's calls, on the path that is shown if there are several. */
export function resultsOf(tree: TreeModel, row: Row, on: ReadonlySet<string>): (Row | undefined)[] {
  if (row.calls === undefined) return [];
  const seen = new Map<string, number>();
  return row.calls.map((call) => {
    const nth = seen.get(call.id) ?? 0;
    seen.set(call.id, nth + 1);
    return tree.result(row.id, call.id, nth, on);
  });
}
