/**
 * The tree as a picture: an SVG document that needs nothing beside itself, or the same as PNG.
 *
 * It is built with the DOM and serialised, so that no text of a conversation can become markup; it holds no link, no
 * script and no image.
 */

import { CARD, LANE, layout, type Placed, type Sized } from "./layout";
import { figures, heightOf, MAX_CALLS } from "./card";
import { duration } from "./format";
import { kindOf, speaker } from "./parts";
import { oneLine } from "./plain";
import { chips, shown, UNFOLDED, type Chip } from "./scene";
import type { SessionStore } from "./store";
import type { TreeModel } from "./tree";
import type { Row } from "./types";

const SVG = "http://www.w3.org/2000/svg";
const PAD = 32;
const HEAD = 40; // of the title
const FRAME = { top: 36, pad: 12 }; // around the cards of a sub-agent
const NOWHERE: ReadonlySet<string> = new Set();
const NO_CHIPS: ReadonlyMap<string, Chip> = new Map();
const TEXT = 38; // where the text of a card begins
const SANS = "system-ui, -apple-system, 'Segoe UI', sans-serif";
const MONO = "ui-monospace, Menlo, Consolas, monospace";
const LARGEST = 16_000; // pixels that browsers draw in one direction

const TOKENS = ["ground", "card", "panel", "line", "line-2", "line-3", "ink", "ink-2", "ink-3", "petrol", "brick", "role-user", "role-assistant"] as const;
type Ink = Record<(typeof TOKENS)[number], string>;

function colours(): Ink {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(TOKENS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()])) as Ink;
}

/** XML has no place for some characters, however they are escaped; `oneLine` shows the control characters. */
function sayable(text: string): string {
  return oneLine(text).replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|[\ufffe\uffff]/g, "\ufffd");
}

type Attributes = Record<string, string | number | undefined>;

function add(to: Element, name: string, attributes: Attributes, text?: string): Element {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(key, String(value));
  if (text !== undefined) element.textContent = sayable(text);
  to.append(element);
  return element;
}

const ruler = document.createElement("canvas").getContext("2d")!;

/** A text cut to a width, with an ellipsis where something is missing. */
function cut(text: string, width: number, font: string): string {
  ruler.font = font;
  if (ruler.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (ruler.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}

/** A text in at most so many lines, broken between words where that can be. */
function lines(text: string, width: number, font: string, most: number): string[] {
  ruler.font = font;
  const found: string[] = [];
  let line = "";
  for (const word of sayable(text).split(/(?<=\s)/)) {
    if (ruler.measureText(line + word.trimEnd()).width <= width) {
      line += word;
      continue;
    }
    if (line !== "") found.push(line.trimEnd());
    line = word;
    while (ruler.measureText(line.trimEnd()).width > width && found.length < most) {
      const piece = cut(line, width, font).slice(0, -1);
      found.push(piece);
      line = line.slice(Math.max(1, piece.length));
    }
    if (found.length >= most) break;
  }
  if (line !== "" && found.length < most) found.push(line.trimEnd());
  else if (found.length >= most) found[most - 1] = cut(`${found[most - 1]}…`, width, font);
  return found.slice(0, most);
}

/** A tree at its places. The sub-agents of the same file stand in frames beside their calls, with all of their cards. */
type Drawing = { tree: TreeModel; scene: ReturnType<typeof shown>; places: ReadonlyMap<string, Placed>; frames: ReadonlyMap<string, Drawing>; width: number; height: number };

function drawing(tree: TreeModel): Drawing {
  const scene = shown({ tree }, UNFOLDED);
  const sized: Sized[] = scene.rows.map((row) => ({ id: row.id, parent: scene.above.get(row.id), height: heightOf(row) }));
  const frames = new Map<string, Drawing>();
  for (const [card, keys] of scene.frames)
    for (const key of keys.filter((one) => one.startsWith("@"))) {
      const inside = drawing(tree.thread(key.slice(1)));
      frames.set(key, inside);
      sized.push({ id: key, parent: card, height: inside.height + FRAME.top + FRAME.pad, beside: true, lanes: Math.ceil((inside.width + 2 * FRAME.pad) / LANE) });
    }
  const places = layout(sized);
  let [width, height] = [CARD, 0];
  for (const one of places.values()) [width, height] = [Math.max(width, one.x + (frames.has(one.id) ? frames.get(one.id)!.width + 2 * FRAME.pad : CARD)), Math.max(height, one.y + one.height)];
  return { tree, scene, places, frames, width, height };
}

export function svgOf(store: SessionStore, title: string): { text: string; width: number; height: number } {
  const ink = colours();
  const whole = drawing(store.tree);
  const [width, height] = [Math.max(whole.width, 320) + 2 * PAD, whole.height + 2 * PAD + HEAD];
  const root = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}`, role: "img" })) root.setAttribute(name, String(value));
  add(root, "title", {}, title);
  add(root, "rect", { width, height, fill: ink.ground });
  add(root, "text", { x: PAD, y: PAD + 12, "font-family": SANS, "font-size": 17, "font-weight": 600, fill: ink.ink }, cut(title, width - 2 * PAD, `600 17px ${SANS}`));
  const stage = add(root, "g", { transform: `translate(${PAD} ${PAD + HEAD})`, "font-family": SANS, "font-size": 12 });
  draw(stage, whole, chips(store), true, ink);
  return { text: new XMLSerializer().serializeToString(root), width, height };
}

/** `chosen`: the path to the head is marked, as of the conversation itself. */
function draw(stage: Element, { tree, scene, places, frames }: Drawing, named: ReadonlyMap<string, Chip>, chosen: boolean, ink: Ink): void {
  const path = new Set(tree.path(tree.head).map((id) => scene.card.get(id) ?? id));
  edges(stage, scene, places, chosen ? path : NOWHERE, ink);
  for (const [caller, keys] of scene.frames)
    for (const key of keys) {
      const [from, at, inside] = [places.get(caller), places.get(key), frames.get(key)];
      if (from === undefined || at === undefined || inside === undefined) continue;
      add(stage, "path", { d: `M${from.x + CARD} ${at.y + 18}H${at.x}`, stroke: ink["line-3"], "stroke-width": 1.5, "stroke-dasharray": "1.5 4", "stroke-linecap": "round" });
      const frame = add(stage, "g", { transform: `translate(${at.x} ${at.y})`, "data-agent": key.slice(1) });
      add(frame, "rect", { width: inside.width + 2 * FRAME.pad, height: at.height, rx: 8, fill: ink.panel, stroke: ink["line-3"], "stroke-dasharray": "4 3" });
      add(frame, "text", { x: FRAME.pad, y: 22, "font-weight": 600, fill: ink["ink-2"] }, "sub-agent");
      draw(add(frame, "g", { transform: `translate(${FRAME.pad} ${FRAME.top})` }), inside, NO_CHIPS, false, ink);
    }
  for (const row of scene.rows) {
    const at = places.get(row.id);
    if (at === undefined) continue;
    const chip = named.get(row.id);
    if (chip !== undefined && scene.above.has(row.id)) add(stage, "text", { x: at.x + 32, y: at.y - 10, "font-size": 11, "font-weight": 500, fill: path.has(row.id) ? ink.petrol : ink["ink-2"] }, cut(chip.name, CARD - 40, `500 11px ${SANS}`));
    card(stage, tree, row, at, path.has(row.id), ink);
  }
}

function edges(stage: Element, scene: ReturnType<typeof shown>, places: ReadonlyMap<string, Placed>, path: ReadonlySet<string>, ink: Ink): void {
  const forks = new Map<string, Placed>();
  const draw = (from: Placed, to: Placed, stroke: string, width: number, dashed = false) => {
    const [x1, y1, x2, y2] = [from.x + 20, from.y + from.height, to.x + 20, to.y];
    const [side, turn] = [Math.sign(x2 - x1), Math.max(y1 + 22, x2 < x1 ? y2 - 14 : 0)];
    const bend = Math.max(0, Math.min(10, Math.abs(y2 - turn)));
    const d = x1 === x2 ? `M${x1} ${y1}V${y2}` : `M${x1} ${y1}V${turn - bend}Q${x1} ${turn} ${x1 + bend * side} ${turn}H${x2 - bend * side}Q${x2} ${turn} ${x2} ${turn + bend}V${y2}`;
    add(stage, "path", { d, fill: "none", stroke, "stroke-width": width, "stroke-dasharray": dashed ? "5 4" : undefined });
  };
  for (const chosen of [false, true])
    for (const row of scene.rows) {
      const [from, to] = [places.get(scene.above.get(row.id) ?? ""), places.get(row.id)];
      if (to === undefined) continue;
      const on = from !== undefined && path.has(row.id) && path.has(from.id);
      if (from !== undefined && on === chosen) draw(from, to, on ? ink.petrol : ink["line-3"], on ? 2 : 1.5);
      if (from !== undefined && from.lane !== to.lane) forks.set(from.id, from);
      if (!chosen) for (const other of row.parents ?? []) {
        const merged = places.get(scene.card.get(other) ?? "");
        if (merged !== undefined && merged !== from) draw(merged, to, ink["ink-3"], 1.25, true);
      }
    }
  for (const from of forks.values()) add(stage, "circle", { cx: from.x + 20, cy: from.y + from.height + 14, r: 4.5, fill: ink.card, stroke: path.has(from.id) ? ink.petrol : ink["ink-3"], "stroke-width": 2 });
}

function card(stage: Element, tree: TreeModel, row: Row, at: Placed, on: boolean, ink: Ink): void {
  const g = add(stage, "g", { transform: `translate(${at.x} ${at.y})` });
  const failed = row.call?.error === true || row.error !== undefined;
  const mono = row.role === "toolResult";
  add(g, "rect", { width: CARD, height: at.height, rx: 8, fill: on ? ink.card : ink.panel, stroke: ink["line-2"] });
  const kind = kindOf(row);
  if (kind === "assistant") {
    add(g, "circle", { cx: 20, cy: 18, r: 7, fill: "none", stroke: ink["role-assistant"], "stroke-width": 2 });
    add(g, "circle", { cx: 20, cy: 18, r: 2.5, fill: ink["role-assistant"] });
  } else add(g, "rect", { x: 13, y: 11, width: 14, height: 14, rx: 3, ...(kind === "user" ? { fill: ink["role-user"] } : { fill: "none", stroke: ink["line-3"], "stroke-width": 1.5 }) });
  const figure = failed ? "failed" : figures(row);
  ruler.font = `11px ${SANS}`;
  const room = CARD - TEXT - 24 - ruler.measureText(figure).width;
  add(g, "text", { x: TEXT, y: 22, "font-weight": 600, fill: on ? ink.ink : ink["ink-2"] }, cut(oneLine(speaker(row)), room, `600 12px ${SANS}`));
  add(g, "text", { x: CARD - 12, y: 22, "text-anchor": "end", "font-size": 11, fill: failed ? ink.brick : ink["ink-3"] }, figure);
  let y = 32;
  const say = (text: string, fill: string, font: string, size: number, family: string, most: number) => {
    for (const line of lines(text, CARD - 50, font, most)) add(g, "text", { x: TEXT, y: (y += 17) - 4, fill, "font-size": size, "font-family": family }, line);
  };
  if (row.text !== "") say(row.text, row.call?.error ? ink.brick : on ? ink.ink : ink["ink-2"], mono ? `11px ${MONO}` : `12px ${SANS}`, mono ? 11 : 12, mono ? MONO : SANS, 4);
  const wrong = row.error || row.bad; // an empty error is the text already
  if ((row.images ?? 0) > 0) say(`${row.images} image${row.images === 1 ? "" : "s"}`, ink["ink-3"], `12px ${SANS}`, 12, SANS, 1);
  if (wrong !== undefined) say(wrong, ink.brick, `12px ${SANS}`, 12, SANS, 2);
  const calls = row.calls ?? [];
  calls.slice(0, MAX_CALLS).forEach((call, n) => {
    const result = tree.result(row.id, call.id, calls.slice(0, n).filter((one) => one.id === call.id).length);
    const bad = call.bad === true || result?.call?.error === true;
    const end = call.bad ? "malformed" : bad ? "failed" : (duration(result?.ms) ?? "");
    const top = y + 7 + 24 * n;
    ruler.font = `600 11px ${SANS}`;
    const name = cut(oneLine(call.name), 120, ruler.font);
    const wide = ruler.measureText(name).width;
    add(g, "text", { x: TEXT, y: top + 15, "font-size": 11, "font-weight": 600, fill: bad ? ink.brick : ink["ink-2"] }, name);
    if (call.arg !== undefined) add(g, "text", { x: TEXT + wide + 8, y: top + 15, "font-size": 11, "font-family": MONO, fill: ink["ink-3"] }, cut(oneLine(call.arg), CARD - TEXT - wide - 80, `11px ${MONO}`));
    add(g, "text", { x: CARD - 12, y: top + 15, "text-anchor": "end", "font-size": 11, fill: bad ? ink.brick : ink["ink-3"] }, end);
  });
  if (calls.length > MAX_CALLS) add(g, "text", { x: TEXT, y: y + 7 + 24 * MAX_CALLS + 15, "font-size": 11, fill: ink["ink-3"] }, `${calls.length - MAX_CALLS} more calls`);
}

/** The same picture in pixels: twice as fine as the screen, or as fine as a browser can draw it. */
export async function pngOf(svg: { text: string; width: number; height: number }): Promise<Blob> {
  const scale = Math.min(2, LARGEST / Math.max(svg.width, svg.height), Math.sqrt(200e6 / (svg.width * svg.height)));
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svg.text], { type: "image/svg+xml" }));
  try {
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [Math.ceil(svg.width * scale), Math.ceil(svg.height * scale)];
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
    if (blob === null) throw new Error("the picture is too large for this browser; export it as SVG");
    return blob;
  } finally {
    URL.revokeObjectURL(url);
  }
}
