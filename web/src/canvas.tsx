/**
 * The tree on an infinite canvas. Only cards in view go to the flow library; edges, far levels and the mini-map are
 * painted on 2D canvases. New nodes never move the viewport.
 */

import "@xyflow/react/dist/base.css";

import { ReactFlow, ReactFlowProvider, useReactFlow, type Node, type NodeProps, type Viewport } from "@xyflow/react";
import { memo, useCallback, useEffect, useMemo, useRef, useState } from "react";

import { Card, heightOf, type CardState } from "./card";
import { CARD, layout, type Placed, type Sized } from "./layout";
import { Button, BranchChip, kindOf } from "./parts";
import { cost, plural } from "./format";
import type { SessionStore } from "./store";
import type { LiveNode, Row } from "./types";

export const FAR = 0.35;
export const NEAR = 0.8;
const MARGIN = 400; // pixels around the view in which cards are ready
const FOLD_FROM = 3; // tool results in a row that are drawn inside their call's card

type CardData = { row: Row; state: CardState; live?: LiveNode; pick: (id: string) => void };
const CardNode = memo(function CardNode({ data }: NodeProps<Node<CardData>>) {
  return (
    <div role="treeitem" aria-selected={data.state.selected} tabIndex={-1} onClick={() => data.pick(data.row.id)}>
      <Card row={data.row} state={data.state} live={data.live} />
    </div>
  );
});
const NODE_TYPES = { card: CardNode };

export type Selection = { at?: string; to?: string };
export type CanvasProps = {
  store: SessionStore;
  version: number;
  path: readonly string[];
  selected?: string;
  findings: ReadonlyMap<string, number>;
  folded: ReadonlySet<string>;
  onSelect: (id: string) => void;
  onCompare: () => void;
};

export function CanvasView(props: CanvasProps) {
  return <ReactFlowProvider><Stage {...props} /></ReactFlowProvider>;
}

function liveRow(node: LiveNode): Row {
  const text = node.content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join(" ");
  const calls = node.content.flatMap((block) => (block.type === "toolCall" ? [{ id: block.id, name: block.name }] : []));
  return { seq: Number.MAX_SAFE_INTEGER, id: node.node, parent: node.parent, role: "assistant", text: text.slice(-150), model: node.model, calls };
}

/** The rows that are drawn: everything that is not folded away below a folded card. */
export function shownRows(store: SessionStore, folded: ReadonlySet<string>): { rows: Row[]; hidden: Map<string, number> } {
  const rows: Row[] = [];
  const owner = new Map<string, string>(); // row that is hidden -> the folded card above it
  const hidden = new Map<string, number>();
  for (const row of store.tree.rows.values()) {
    const above = row.parent === undefined ? undefined : (owner.get(row.parent) ?? (folded.has(row.parent) ? row.parent : undefined));
    if (above === undefined) rows.push(row);
    else {
      owner.set(row.id, above);
      hidden.set(above, (hidden.get(above) ?? 0) + 1);
    }
  }
  for (const node of store.live.values()) if (node.parent === undefined || !owner.has(node.parent)) rows.push(liveRow(node));
  return { rows, hidden };
}

function Stage({ store, version, path, selected, findings, folded, onSelect, onCompare }: CanvasProps) {
  const flow = useReactFlow();
  const host = useRef<HTMLDivElement>(null);
  const paint = useRef<HTMLCanvasElement>(null);
  const map = useRef<HTMLCanvasElement>(null);
  const [view, setView] = useState<Viewport>({ x: 40, y: 24, zoom: 1 });
  const [size, setSize] = useState({ width: 1200, height: 800 });
  const level = useRef<"far" | "middle" | "near">("near");
  const onPath = useMemo(() => new Set(path), [path]);

  const { rows, hidden } = useMemo(() => shownRows(store, folded), [store, version, folded]); // eslint-disable-line
  const placed = useMemo(() => {
    const sized: Sized[] = rows.map((row) => ({ id: row.id, parent: row.parent, height: heightOf(row) }));
    return layout(sized);
  }, [rows]);
  const byY = useMemo(() => [...placed.values()].sort((a, b) => a.y - b.y), [placed]);
  const bounds = useMemo(() => {
    let width = CARD;
    let height = 100;
    for (const one of placed.values()) {
      width = Math.max(width, one.x + CARD);
      height = Math.max(height, one.y + one.height);
    }
    return { width, height };
  }, [placed]);
  const rowOf = useMemo(() => new Map(rows.map((row) => [row.id, row])), [rows]);

  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => setSize({ width: element.clientWidth, height: element.clientHeight }));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  // Levels change with 10 % hysteresis.
  const zoom = view.zoom;
  if (zoom < FAR * 0.95) level.current = "far";
  else if (zoom > FAR * 1.05 && zoom < NEAR * 0.95) level.current = "middle";
  else if (zoom > NEAR * 1.05 || (level.current === "far" && zoom >= NEAR)) level.current = "near";
  else if (level.current === "far" && zoom > FAR * 1.05) level.current = "middle";

  const nodes = useMemo(() => {
    if (level.current === "far") return [];
    const [left, top] = [(-view.x - MARGIN) / view.zoom, (-view.y - MARGIN) / view.zoom];
    const [right, bottom] = [left + (size.width + 2 * MARGIN) / view.zoom, top + (size.height + 2 * MARGIN) / view.zoom];
    const found: Node<CardData>[] = [];
    for (const one of within(byY, top - 400, bottom)) {
      if (one.x + CARD < left || one.x > right || one.y + one.height < top) continue;
      const row = rowOf.get(one.id)!;
      const live = store.live.get(one.id);
      found.push({
        id: one.id,
        type: "card",
        position: { x: one.x, y: one.y },
        draggable: false,
        selectable: false,
        data: {
          row,
          live,
          pick: onSelect,
          state: {
            onPath: onPath.has(one.id) || live !== undefined,
            selected: selected === one.id,
            middle: level.current === "middle",
            folded: hidden.get(one.id),
            findings: findings.get(one.id),
          },
        },
      });
    }
    return found;
  }, [view, size, byY, rowOf, onPath, selected, hidden, findings, onSelect, store]);

  useEffect(() => {
    if (paint.current !== null) paintStage(paint.current, { view, size, byY, placed, rowOf, onPath, selected, far: level.current === "far" });
  }, [view, size, byY, placed, rowOf, onPath, selected]);
  useEffect(() => {
    if (map.current !== null) paintMap(map.current, { byY, rowOf, bounds, view, size });
  }, [byY, rowOf, bounds, view, size]);

  const show = useCallback(
    (id: string, far = false) => {
      const one = placed.get(id);
      if (one === undefined) return;
      const now = flow.getViewport();
      const target = Math.max(now.zoom, 0.9);
      const inView = one.x * now.zoom + now.x > 0 && one.y * now.zoom + now.y > 0 && (one.x + CARD) * now.zoom + now.x < size.width && (one.y + one.height) * now.zoom + now.y < size.height;
      if (inView && !far) return;
      const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
      void flow.setViewport({ x: size.width / 2 - (one.x + CARD / 2) * target, y: size.height / 2 - (one.y + one.height / 2) * target, zoom: target }, { duration: still ? 0 : 240 });
    },
    [flow, placed, size],
  );
  const first = useRef(true);
  useEffect(() => {
    if (selected === undefined || !placed.has(selected)) return;
    show(selected, first.current);
    first.current = false;
  }, [selected]); // eslint-disable-line

  const jump = (event: React.PointerEvent<HTMLCanvasElement>) => {
    if (event.buttons === 0) return;
    const box = event.currentTarget.getBoundingClientRect();
    const scale = Math.min(184 / bounds.width, 120 / bounds.height);
    const x = (event.clientX - box.left) / scale;
    const y = (event.clientY - box.top) / scale;
    void flow.setViewport({ x: size.width / 2 - x * view.zoom, y: size.height / 2 - y * view.zoom, zoom: view.zoom });
  };
  const pickFar = (event: React.MouseEvent) => {
    if (level.current !== "far") return;
    const box = host.current!.getBoundingClientRect();
    const x = (event.clientX - box.left - view.x) / view.zoom;
    const y = (event.clientY - box.top - view.y) / view.zoom;
    const hit = within(byY, y - 400, y + 10).find((one) => x >= one.x && x <= one.x + CARD && y >= one.y && y <= one.y + one.height);
    if (hit !== undefined) onSelect(hit.id);
  };
  const scaleTo = (factor: number) => void flow.zoomTo(view.zoom * factor, { duration: 160 });
  const fit = () => {
    const target = Math.max(0.02, Math.min((size.width - 80) / bounds.width, (size.height - 80) / bounds.height, 1));
    void flow.setViewport({ x: (size.width - bounds.width * target) / 2, y: 40, zoom: target }, { duration: 240 });
  };

  const branches = store.tree.branches;
  return (
    <div className="stage" ref={host} onClick={pickFar} role="tree" aria-label="conversation tree">
      <canvas className="paint" ref={paint} aria-hidden="true" />
      <ReactFlow
        nodes={nodes}
        edges={NO_EDGES}
        nodeTypes={NODE_TYPES}
        viewport={view}
        onViewportChange={setView}
        minZoom={0.02}
        maxZoom={2}
        zoomOnDoubleClick={false}
        nodesDraggable={false}
        nodesConnectable={false}
        elementsSelectable={false}
        panOnScroll
        proOptions={{ hideAttribution: true }}
      />
      {branches.length > 0 && (
        <section className="heads float" aria-label="branches">
          <header><b>{plural(branches.length, "branch", "branches")}</b>{branches.length > 1 && <Button icon="compare" label="Compare" kind="bare" small onClick={onCompare} />}</header>
          <ul>
            {branches.slice(0, 8).map((branch) => {
              const to = store.tree.path(branch.head);
              const spent = to.reduce((sum, id) => sum + (store.tree.rows.get(id)?.cost ?? 0), 0);
              const known = to.some((id) => store.tree.rows.get(id)?.cost !== undefined);
              return (
                <li key={branch.name}>
                  <BranchChip name={branch.name} current={onPath.has(branch.head)} live={branch.live} onClick={() => onSelect(branch.head)} />
                  <span>{to.length} messages</span>
                  <span className={`num ${known ? "" : "dim"}`}>{known ? cost(spent) : "unknown"}</span>
                </li>
              );
            })}
          </ul>
        </section>
      )}
      <section className="map float" aria-label="map">
        <canvas ref={map} width={184} height={120} onPointerDown={jump} onPointerMove={jump} />
        <div className="ctl">
          <Button icon="minus" label="Zoom out" kind="bare" small hideLabel onClick={() => scaleTo(1 / 1.25)} keys="−" />
          <span>{Math.round(view.zoom * 100)} %</span>
          <Button icon="plus" label="Zoom in" kind="bare" small hideLabel onClick={() => scaleTo(1.25)} keys="+" />
          <Button icon="fit" label="Show everything" kind="bare" small hideLabel onClick={fit} keys="0" />
        </div>
      </section>
    </div>
  );
}

const NO_EDGES: never[] = [];
void FOLD_FROM;

/** The placed cards that begin between two heights; the list is sorted by height. */
function within(byY: readonly Placed[], top: number, bottom: number): Placed[] {
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

type Scene = {
  view: Viewport;
  size: { width: number; height: number };
  byY: readonly Placed[];
  placed: ReadonlyMap<string, Placed>;
  rowOf: ReadonlyMap<string, Row>;
  onPath: ReadonlySet<string>;
  selected?: string;
  far: boolean;
};

function colours(): Record<string, string> {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return {
    user: read("--role-user"), assistant: read("--role-assistant"), tool: read("--role-tool"), system: read("--line-3"),
    bad: read("--brick-mark"), edge: read("--line-2"), path: read("--petrol"), merge: read("--line-3"), view: read("--petrol"), card: read("--card"),
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

function paintStage(canvas: HTMLCanvasElement, scene: Scene): void {
  const { view, size, byY, placed, rowOf, onPath } = scene;
  const context = fitted(canvas, size.width, size.height);
  const ink = colours();
  const top = -view.y / view.zoom - 2000;
  const bottom = (size.height - view.y) / view.zoom + 200;
  const at = (x: number, y: number): [number, number] => [x * view.zoom + view.x, y * view.zoom + view.y];
  const edges: [Placed, Placed, boolean][] = [];
  for (const one of within(byY, top, bottom)) {
    const row = rowOf.get(one.id)!;
    const parent = row.parent === undefined ? undefined : placed.get(row.parent);
    if (parent !== undefined) edges.push([parent, one, onPath.has(one.id) && onPath.has(parent.id)]);
    for (const other of row.parents ?? []) {
      const from = placed.get(other);
      if (from !== undefined) {
        context.setLineDash([5, 4]);
        stroke(context, at, from, one, ink["merge"]!, 1.25);
        context.setLineDash([]);
      }
    }
  }
  for (const [from, to, on] of edges) if (!on) stroke(context, at, from, to, ink["edge"]!, 1.5);
  for (const [from, to, on] of edges) if (on) stroke(context, at, from, to, ink["path"]!, 2);
  if (!scene.far) return;
  for (const one of within(byY, top, bottom)) {
    const row = rowOf.get(one.id)!;
    const [x, y] = at(one.x, one.y);
    const weight = Math.log2(2 + (row.usage?.output ?? row.chars ?? row.text.length));
    const height = Math.max(2, Math.min(one.height, 8 + weight * 2) * view.zoom - 1);
    context.fillStyle = row.call?.error || row.error !== undefined ? ink["bad"]! : ink[kindOf(row.role)]!;
    context.globalAlpha = onPath.has(one.id) ? 1 : 0.75;
    context.fillRect(x, y, Math.max(3, CARD * view.zoom), height);
    if (scene.selected === one.id) {
      context.globalAlpha = 1;
      context.strokeStyle = ink["path"]!;
      context.lineWidth = 2;
      context.strokeRect(x - 2, y - 2, CARD * view.zoom + 4, height + 4);
    }
  }
  context.globalAlpha = 1;
}

/** Down from the glyph's column; a fork leaves sideways with a short elbow. */
function stroke(context: CanvasRenderingContext2D, at: (x: number, y: number) => [number, number], from: Placed, to: Placed, colour: string, width: number): void {
  const [x1, y1] = at(from.x + 20, from.y + from.height);
  const [x2, y2] = at(to.x + 20, to.y);
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(x1, y1);
  if (Math.abs(x1 - x2) < 1) context.lineTo(x2, y2);
  else {
    const [, turn] = at(0, from.y + from.height + 22);
    const bend = Math.min(10, Math.abs(x2 - x1), Math.abs(y2 - turn));
    context.lineTo(x1, turn - bend);
    context.quadraticCurveTo(x1, turn, x1 + bend * Math.sign(x2 - x1), turn);
    context.lineTo(x2 - bend * Math.sign(x2 - x1), turn);
    context.quadraticCurveTo(x2, turn, x2, turn + bend);
    context.lineTo(x2, y2);
  }
  context.stroke();
}

function paintMap(canvas: HTMLCanvasElement, scene: { byY: readonly Placed[]; rowOf: ReadonlyMap<string, Row>; bounds: { width: number; height: number }; view: Viewport; size: { width: number; height: number } }): void {
  const [width, height] = [184, 120];
  const context = fitted(canvas, width, height);
  const ink = colours();
  const scale = Math.min(width / scene.bounds.width, height / scene.bounds.height);
  for (const one of scene.byY) {
    const row = scene.rowOf.get(one.id)!;
    context.fillStyle = row.call?.error || row.error !== undefined ? ink["bad"]! : ink[kindOf(row.role)]!;
    context.fillRect(one.x * scale, one.y * scale, Math.max(2, CARD * scale), Math.max(1, one.height * scale - 0.5));
  }
  context.strokeStyle = ink["view"]!;
  context.lineWidth = 1.25;
  const { view, size } = scene;
  context.strokeRect((-view.x / view.zoom) * scale, (-view.y / view.zoom) * scale, (size.width / view.zoom) * scale, (size.height / view.zoom) * scale);
}
