/** The 2D half of the canvas: edges, forks, the far level, the mini-map. */

import type { Viewport } from "@xyflow/react";

import { CARD, type Placed } from "./layout";
import { kindOf } from "./parts";
import type { Chip } from "./scene";
import type { Row } from "./types";

export type Scene = {
  view: Viewport;
  size: { width: number; height: number };
  byY: readonly Placed[];
  placed: ReadonlyMap<string, Placed>;
  rowOf: ReadonlyMap<string, Row>;
  above: ReadonlyMap<string, string>;
  card: ReadonlyMap<string, string>;
  frames: ReadonlyMap<string, readonly string[]>;
  onPath: ReadonlySet<string>;
  chips: ReadonlyMap<string, Chip>;
  selected?: string;
  far: boolean;
  ink: Ink;
};
export const MAP = { width: 184, height: 120 };

/** The placed cards that begin between two heights; the list is sorted by height. */
export function within(byY: readonly Placed[], top: number, bottom: number): Placed[] {
  let low = 0;
  let high = byY.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (byY[middle]!.y < top) low = middle + 1;
    else high = middle;
  }
  const found: Placed[] = [];
  for (let at = low; at < byY.length && byY[at]!.y <= bottom; at += 1) found.push(byY[at]!);
  return found;
}

export type Ink = Record<"user" | "assistant" | "tool" | "system" | "bad" | "edge" | "path" | "merge" | "card" | "ink" | "ground", string>;

/** The colours of the theme. To ask for them in each frame would have the browser work out all styles in between. */
export function colours(): Ink {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return {
    user: read("--role-user"), assistant: read("--role-assistant"), tool: read("--role-tool"), system: read("--line-3"),
    bad: read("--brick-mark"), edge: read("--line-3"), path: read("--petrol"), merge: read("--ink-3"), card: read("--card"), ink: read("--ink-2"), ground: read("--ground"),
  };
}

function fitted(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

type At = (x: number, y: number) => [number, number];

const failed = (row: Row): boolean => row.call?.error === true || row.error !== undefined;

/** At far level a block's height tells how much was said; the log keeps long answers from filling the screen. */
function weight(row: Row, one: Placed): number {
  const said = Math.log2(2 + (row.usage?.output ?? row.chars ?? row.text.length));
  return Math.min(one.height, 18 + said * 5);
}

export function paintStage(canvas: HTMLCanvasElement, scene: Scene): void {
  const { view, size, byY, placed, rowOf, above, onPath, far, ink } = scene;
  const context = fitted(canvas, size.width, size.height);
  const top = -view.y / view.zoom - 2000;
  const bottom = (size.height - view.y) / view.zoom + 400;
  const at: At = (x, y) => [x * view.zoom + view.x, y * view.zoom + view.y];
  const near = within(byY, top, bottom);
  const end = (one: Placed) => (far ? weight(rowOf.get(one.id)!, one) : one.height);
  const edges: [Placed, Placed, boolean][] = [];
  const forks = new Map<string, { from: Placed; on: boolean }>();
  for (const one of near) {
    const row = rowOf.get(one.id);
    if (row === undefined) continue;
    const from = placed.get(above.get(one.id) ?? "");
    if (from !== undefined) {
      const on = onPath.has(one.id) && onPath.has(from.id);
      edges.push([from, one, on]);
      if (from.lane !== one.lane) forks.set(from.id, { from, on: onPath.has(from.id) });
    }
    for (const other of row.parents ?? []) {
      const merged = placed.get(scene.card.get(other) ?? "");
      if (merged === undefined || merged.id === from?.id) continue;
      context.setLineDash([5, 4]);
      stroke(context, at, merged, one, end(merged), ink.merge, 1.25);
      context.setLineDash([]);
    }
    for (const key of scene.frames.get(one.id) ?? []) {
      const frame = placed.get(`frame ${key}`);
      if (frame !== undefined) aside(context, at(one.x + CARD, one.y + 20), at(frame.x, frame.y + 20), ink.merge);
    }
  }
  for (const [from, to, on] of edges) if (!on) stroke(context, at, from, to, end(from), ink.edge, 1.5);
  for (const [from, to, on] of edges) if (on) stroke(context, at, from, to, end(from), ink.path, 2);
  if (!far) for (const { from, on } of forks.values()) ring(context, at(from.x + 20, from.y + from.height + 14), 4.5 * Math.max(view.zoom, 0.6), on ? ink.path : ink.merge, ink.card);
  if (!far) return;
  context.font = "500 11px system-ui, sans-serif";
  for (const one of near) {
    const row = rowOf.get(one.id);
    const [x, y] = at(one.x, one.y);
    if (row === undefined) {
      context.strokeStyle = ink.merge; // a sub-agent's frame
      context.lineWidth = 1;
      context.strokeRect(x, y, CARD * view.zoom, one.height * view.zoom);
      continue;
    }
    const width = Math.max(3, CARD * view.zoom);
    const height = Math.max(2, weight(row, one) * view.zoom);
    context.fillStyle = failed(row) ? ink.bad : ink[kindOf(row)];
    block(context, x, y, width, height);
    if (scene.selected === one.id) {
      context.strokeStyle = ink.path;
      context.lineWidth = 2;
      context.strokeRect(x - 3, y - 3, width + 6, height + 6);
    }
    // Names keep their size on the screen, as long as lanes leave room for them.
    const chip = scene.chips.get(one.id);
    if (chip !== undefined && view.zoom > 0.12) {
      const name = cut(context, chip.name, width - 12 * view.zoom);
      const left = x + 26 * view.zoom + 4;
      context.fillStyle = ink.ground; // edges pass behind a name
      context.fillRect(left - 2, y - 15, context.measureText(name).width + 4, 14);
      context.fillStyle = onPath.has(one.id) ? ink.path : ink.ink;
      context.fillText(name, left, y - 4);
    }
  }
}

function cut(context: CanvasRenderingContext2D, text: string, width: number): string {
  let shown = text;
  while (shown.length > 1 && context.measureText(shown).width > width) shown = `${shown.slice(0, -2)}…`;
  return shown;
}

function block(context: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(3, height / 3));
  context.fill();
}

function ring(context: CanvasRenderingContext2D, [x, y]: [number, number], radius: number, colour: string, fill: string): void {
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.fillStyle = fill;
  context.fill();
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.stroke();
}

/** Sideways, dotted, to what a call started. */
function aside(context: CanvasRenderingContext2D, from: [number, number], to: [number, number], colour: string): void {
  context.setLineDash([1.5, 4]);
  context.lineCap = "round";
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(...from);
  context.lineTo(...to);
  context.stroke();
  context.setLineDash([]);
  context.lineCap = "butt";
}

/** Down from the glyph's column; a fork leaves sideways, 22 below its card, with an elbow of 10. */
function stroke(context: CanvasRenderingContext2D, at: At, from: Placed, to: Placed, height: number, colour: string, width: number): void {
  const [x1, y1] = at(from.x + 20, from.y + height);
  const [x2, y2] = at(to.x + 20, to.y);
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(x1, y1);
  if (Math.abs(x1 - x2) < 1) context.lineTo(x2, y2);
  else {
    const side = Math.sign(x2 - x1);
    const [, turn] = at(0, Math.max(from.y + from.height + 22, x2 < x1 ? to.y - 14 : 0));
    const bend = Math.max(0, Math.min(10, Math.abs(x2 - x1) / 2, Math.abs(y2 - turn)));
    context.lineTo(x1, turn - bend);
    context.quadraticCurveTo(x1, turn, x1 + bend * side, turn);
    context.lineTo(x2 - bend * side, turn);
    context.quadraticCurveTo(x2, turn, x2, turn + bend);
    context.lineTo(x2, y2);
  }
  context.stroke();
}

type Blocks = Pick<Scene, "byY" | "rowOf" | "ink"> & { bounds: { width: number; height: number } };

/** The map keeps its proportions and stands in the middle of its box. */
export function mapScale(bounds: { width: number; height: number }): { scale: number; left: number; top: number } {
  const scale = Math.min(MAP.width / bounds.width, MAP.height / bounds.height, 0.12);
  return { scale, left: (MAP.width - bounds.width * scale) / 2, top: Math.max(0, (MAP.height - bounds.height * scale) / 2) };
}

/** All blocks of a map, painted once; only the frame moves with the view. */
export function paintBlocks(scene: Blocks): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  const context = fitted(canvas, MAP.width, MAP.height);
  const { scale, left, top } = mapScale(scene.bounds);
  for (const one of scene.byY) {
    const row = scene.rowOf.get(one.id);
    if (row === undefined) continue;
    context.fillStyle = failed(row) ? scene.ink.bad : scene.ink[kindOf(row)];
    context.fillRect(left + one.x * scale, top + one.y * scale, Math.max(2, CARD * scale), Math.max(0.7, one.height * scale - 0.5));
  }
  return canvas;
}

export function paintMap(canvas: HTMLCanvasElement, blocks: HTMLCanvasElement, scene: Pick<Scene, "view" | "size" | "ink"> & Pick<Blocks, "bounds">): void {
  const context = fitted(canvas, MAP.width, MAP.height);
  context.drawImage(blocks, 0, 0, MAP.width, MAP.height);
  const { scale, left, top } = mapScale(scene.bounds);
  const { view, size, ink } = scene;
  context.strokeStyle = ink.path;
  context.lineWidth = 1.25;
  const x = Math.max(0.7, left + (-view.x / view.zoom) * scale);
  const y = Math.max(0.7, top + (-view.y / view.zoom) * scale);
  const right = Math.min(MAP.width - 0.7, left + ((size.width - view.x) / view.zoom) * scale);
  const bottom = Math.min(MAP.height - 0.7, top + ((size.height - view.y) / view.zoom) * scale);
  if (right > x && bottom > y) {
    context.beginPath();
    context.roundRect(x, y, right - x, bottom - y, 2);
    context.stroke();
  }
}
