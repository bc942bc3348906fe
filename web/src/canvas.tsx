/**
 * The tree on an infinite canvas. Only cards in view go to the flow library; edges, the far level and the mini-map are
 * painted on 2D canvases. New nodes never move the viewport.
 */

import type { Node, ReactFlowInstance, Viewport } from "@xyflow/react";
import { lazy, Suspense, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import { heightOf, LIVE_HEIGHT, middleLines, resultsOf, type CardData, type CardState } from "./card";
import { FRAME_HEIGHT, type FrameSize } from "./frame";
import { CARD, fitted, isBeneath, type Box, type Placed, type Sized } from "./layout";
import { StillNodes } from "./nodes";
import { keepView, MIN_HEIGHT, NARROW, openingView, UNMOVED } from "./opening";
import { colours, MAP, mapScale, paintBlocks, paintMap, paintStage, within } from "./paint";
import { Button, BranchChip } from "./parts";
import { usePhone } from "./phone";
import { usePlaces } from "./placing";
import { plural, spent } from "./format";
import { chips, liveRow, shown, type Folds } from "./scene";
import type { SessionStore } from "./store";
import type { Row } from "./types";

const FAR = 0.35;
const NEAR = 0.8;
const ROOM = 120; // pixels below the selected card, where an answer is about to stand
const FARTHEST = 0.02; // the smallest zoom; a tree that does not fit then is zoomed out further
const MARGIN = 300; // pixels around the view in which cards are ready

// The first cards do not wait for the flow library.
const Flow = lazy(() => import("./flow"));
const NO_NODES: Node[] = [];

export type CanvasProps = {
  store: SessionStore;
  version: number;
  path: readonly string[];
  selected?: string;
  findings: ReadonlyMap<string, number>;
  folds: Folds;
  onSelect: (id: string) => void;
  onCompare: () => void;
  onMerge: () => void;
};

type Level = "far" | "middle" | "near";

/** How much larger than the cards their texts are at the middle level, so that they can be read. */
function grow(zoom: number): number {
  return Math.min(2.2, Math.max(1, 0.95 / zoom));
}

/** Levels change with 10 % hysteresis, so that a card does not flicker at the border between two. */
function levelAt(zoom: number, before: Level): Level {
  const [far, near] = [FAR * (before === "far" ? 1.05 : 0.95), NEAR * (before === "near" ? 0.95 : 1.05)];
  return zoom < far ? "far" : zoom < near ? "middle" : "near";
}

export function CanvasView({ store, version, path, selected, findings, folds, onSelect, onCompare, onMerge }: CanvasProps) {
  const [flow, setFlow] = useState<ReactFlowInstance>(); // once its library is loaded
  const [drawn, setDrawn] = useState(false); // the cards by the library, too
  const onDrawn = useCallback(() => setDrawn(true), []);
  const host = useRef<HTMLDivElement>(null);
  const paint = useRef<HTMLCanvasElement>(null);
  const map = useRef<HTMLCanvasElement>(null);
  const [view, setView] = useState<Viewport>(UNMOVED);
  const [size, setSize] = useState<{ width: number; height: number }>();
  const [theme, setTheme] = useState(0);
  const [frames, setFrames] = useState<ReadonlyMap<string, FrameSize>>(new Map());
  const resize = useCallback((id: string, size: FrameSize | undefined) => setFrames((before) => { const after = new Map(before); if (size === undefined) after.delete(id); else after.set(id, size); return after; }), []);
  const ink = useMemo(colours, [theme]); // eslint-disable-line
  const level = useRef<Level>("near");
  level.current = levelAt(view.zoom, level.current);
  const viewport = useRef(view);
  viewport.current = view;

  const born = store.tree.version;
  const writing = [...store.live.keys()].join("\n");
  const scene = useMemo(() => shown(store, folds), [store, born, folds]); // eslint-disable-line
  const onPath = useMemo(() => {
    const on = new Set(path.map((id) => scene.card.get(id) ?? id));
    for (const node of store.live.values()) if (node.parent === undefined || on.has(scene.card.get(node.parent) ?? "")) on.add(node.node);
    return on;
  }, [path, scene, writing]); // eslint-disable-line
  const above = useMemo(() => {
    const all = new Map(scene.above);
    for (const node of store.live.values()) {
      const card = node.parent === undefined ? undefined : scene.card.get(node.parent);
      if (card !== undefined) all.set(node.node, card);
    }
    return all;
  }, [scene, writing]); // eslint-disable-line
  const sized = useMemo(() => {
    const found: Sized[] = scene.rows.map((row) => ({ id: row.id, parent: scene.above.get(row.id), height: heightOf(row) }));
    for (const node of store.live.values()) if (!scene.hidden.has(above.get(node.node) ?? "")) found.push({ id: node.node, parent: above.get(node.node), height: LIVE_HEIGHT });
    for (const [id, keys] of scene.frames) for (const key of keys) found.push({ id: `frame ${key}`, parent: id, height: frames.get(key)?.height ?? FRAME_HEIGHT, beside: true, lanes: frames.get(key)?.lanes });
    return found;
  }, [scene, above, frames]); // eslint-disable-line
  const { placed, byY } = usePlaces(sized);
  const bounds = useMemo(() => {
    let width = CARD;
    let height = 100;
    for (const one of byY) {
      width = Math.max(width, one.x + CARD);
      height = Math.max(height, one.y + one.height);
    }
    return { width, height };
  }, [byY]);
  const rowOf = useMemo(() => {
    const all = new Map(scene.rows.map((row) => [row.id, row]));
    for (const node of store.live.values()) all.set(node.node, liveRow(node));
    for (const one of sized) if (one.beside) all.set(one.id, { seq: 0, id: one.id, role: "assistant", text: "" });
    return all;
  }, [scene, sized, version]); // eslint-disable-line
  const named = useMemo(() => chips(store), [store, born, writing]); // eslint-disable-line
  const here = selected === undefined ? undefined : scene.card.get(selected);

  useLayoutEffect(() => {
    const element = host.current;
    if (element === null) return;
    const measure = () => setSize((before) => (before?.width === element.clientWidth && before.height === element.clientHeight ? before : { width: element.clientWidth, height: element.clientHeight }));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    const again = () => setTheme((now) => now + 1);
    const colours = new MutationObserver(again);
    colours.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", again);
    return () => {
      observer.disconnect();
      colours.disconnect();
      system.removeEventListener("change", again);
    };
  }, []);

  const steps = useMemo(() => new Set(path), [path]);
  const cache = useRef(new Map<string, { signature: string; row: Row; node: Node<CardData> }>());
  const nodes = useMemo(() => {
    if (level.current === "far" || size === undefined) return [];
    const [left, top] = [(-view.x - MARGIN) / view.zoom, (-view.y - MARGIN) / view.zoom];
    const [right, bottom] = [left + (size.width + 2 * MARGIN) / view.zoom, top + (size.height + 2 * MARGIN) / view.zoom];
    const found: Node[] = [];
    const kept = new Map<string, { signature: string; row: Row; node: Node<CardData> }>();
    const waits = new Set([...store.waiting.values()].map((one) => one.callId));
    for (const one of within(byY, top - 400, bottom)) {
      if (one.x + CARD < left || one.x > right || one.y + one.height < top) continue;
      const position = { x: one.x, y: one.y };
      if (one.id.startsWith("frame ")) {
        found.push({ id: one.id, type: "frame", position, draggable: false, selectable: false, data: { id: one.id.slice(6), size: frames.get(one.id.slice(6)), onSize: resize, store, onSelect } });
        continue;
      }
      const row = rowOf.get(one.id);
      if (row === undefined) continue;
      const live = store.live.get(one.id);
      const results = live === undefined ? resultsOf(store.tree, row, steps) : [];
      if ((row.images ?? 0) > 0) store.want([row.id]);
      const state: CardState = { pictures: picturesOf(store, row), onPath: onPath.has(one.id), selected: here === one.id, lines: level.current === "middle" ? middleLines(one.height, grow(view.zoom)) : undefined, folded: scene.hidden.get(one.id), findings: findings.get(one.id), waits: waits.size === 0 ? undefined : row.calls?.map((call) => call.id).filter((id) => waits.has(id)) };
      // The same node object keeps its card from being drawn again while the view moves.
      const signature = JSON.stringify([one.x, one.y, state, live?.content.length ?? 0, results.map((result) => result?.id)]);
      const before = cache.current.get(one.id);
      if (before !== undefined && before.signature === signature && before.row === row) kept.set(one.id, before);
      else {
        const data: CardData = { row, live, results, state, pick: onSelect };
        kept.set(one.id, { signature, row, node: { id: one.id, type: "card", position, measured: { width: CARD, height: one.height }, draggable: false, selectable: false, data } });
      }
      found.push(kept.get(one.id)!.node);
      const chip = named.get(one.id);
      if (chip !== undefined && above.has(one.id)) found.push({ id: `chip ${one.id}`, type: "chip", position: { x: one.x + 32, y: one.y - 29 }, draggable: false, selectable: false, data: { chip, current: onPath.has(one.id), id: one.id, pick: onSelect } });
    }
    cache.current = kept;
    return found;
  }, [store.entries.size, view, size, byY, rowOf, onPath, here, scene, findings, onSelect, store, named, above, steps, frames, resize]);

  useEffect(() => {
    if (paint.current !== null && size !== undefined) paintStage(paint.current, { view, size, byY, placed, rowOf, above, card: scene.card, frames: scene.frames, onPath, chips: named, selected: here, far: level.current === "far", ink });
  }, [view, size, byY, placed, rowOf, above, scene, onPath, named, here, ink]);
  const blocks = useMemo(() => paintBlocks({ byY, rowOf, bounds, ink }), [byY, rowOf, bounds, ink]);
  useEffect(() => {
    if (map.current !== null && size !== undefined) paintMap(map.current, blocks, { bounds, view, size, ink });
  }, [blocks, bounds, view, size, ink]);

  const move = useCallback((to: Viewport) => {
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (flow === undefined) setView(to);
    else void flow.setViewport(to, { duration: still ? 0 : 240 });
  }, [flow]);
  const panels = useCallback((): Box[] => {
    const origin = host.current!.getBoundingClientRect();
    return [...host.current!.querySelectorAll(":scope > .float")].flatMap((panel) => {
      const box = panel.getBoundingClientRect();
      return box.width === 0 ? [] : { left: box.left - origin.left, top: box.top - origin.top, right: box.right - origin.left, bottom: box.bottom - origin.top };
    });
  }, []);
  const fit = useCallback(() => {
    if (size !== undefined) move(fitted(byY, bounds, size, panels()));
  }, [byY, bounds, move, panels, size]);
  const minZoom = size === undefined ? FARTHEST : Math.min(FARTHEST, (0.5 * size.width) / bounds.width, (0.5 * size.height) / bounds.height);
  const show = useCallback(
    (one: Placed, first: boolean) => {
      if (size === undefined) return;
      const now = viewport.current;
      if (first) {
        if (size.height < MIN_HEIGHT) return fit();
        return setView(openingView(store.key, one, byY, size, store.tree.branches.length));
      }
      const [left, top] = [one.x * now.zoom + now.x, one.y * now.zoom + now.y];
      const inside = left > 0 && top > 0 && left + CARD * now.zoom < size.width && top + one.height * now.zoom < size.height - ROOM;
      if (inside && !panels().some((panel) => isBeneath(one, now, panel))) return;
      move({ x: size.width / 2 - (one.x + CARD / 2) * now.zoom, y: size.height / 2 - (one.y + one.height / 2) * now.zoom, zoom: now.zoom });
    },
    [byY, fit, move, panels, size, store],
  );
  // The view follows what was chosen, and nothing else: what is born elsewhere leaves it where it is.
  const last = useRef<string>(undefined);
  useLayoutEffect(() => {
    const one = here === undefined ? undefined : placed.get(here);
    if (one === undefined || size === undefined || last.current === here) return;
    show(one, last.current === undefined);
    last.current = here;
  }, [here, placed, size, show]);

  // Folding moves cards, but not the selected one under the reader's eyes.
  const before = useRef<{ folds: Folds; placed: ReadonlyMap<string, Placed>; here?: string }>(undefined);
  useLayoutEffect(() => {
    const [old, now] = [before.current?.placed.get(before.current.here ?? ""), placed.get(here ?? "")];
    if (before.current?.placed === placed && before.current.folds !== folds) return; // the new places are on their way
    if (before.current !== undefined && before.current.folds !== folds && old !== undefined && now !== undefined && (old.x !== now.x || old.y !== now.y))
      setView((view) => ({ ...view, x: view.x + (old.x - now.x) * view.zoom, y: view.y + (old.y - now.y) * view.zoom }));
    before.current = { folds, placed, here };
  }, [folds, placed, here]);

  // The place is kept for the next visit of this browser.
  useEffect(() => {
    if (last.current === undefined || size === undefined || size.height < MIN_HEIGHT) return;
    const timer = window.setTimeout(() => keepView(store.key, view), 500);
    return () => window.clearTimeout(timer);
  }, [store, view, size]);

  const jump = (event: React.PointerEvent<HTMLCanvasElement>) => {
    if (event.buttons === 0 || size === undefined) return;
    const box = event.currentTarget.getBoundingClientRect();
    const { scale, left, top } = mapScale(bounds);
    const x = (event.clientX - box.left - left) / scale;
    const y = (event.clientY - box.top - top) / scale;
    setView({ x: size.width / 2 - x * view.zoom, y: size.height / 2 - y * view.zoom, zoom: view.zoom });
  };
  const pickFar = (event: React.MouseEvent) => {
    if (level.current !== "far" || (event.target as Element).closest(".float") !== null) return;
    const box = host.current!.getBoundingClientRect();
    const x = (event.clientX - box.left - view.x) / view.zoom;
    const y = (event.clientY - box.top - view.y) / view.zoom;
    const hit = within(byY, y - 400, y + 10).findLast((one) => x >= one.x && x <= one.x + CARD && y >= one.y && y <= one.y + one.height + 12);
    if (hit !== undefined && !hit.id.startsWith("frame ")) onSelect(hit.id);
  };
  const scaleTo = useCallback((factor: number) => void flow?.zoomTo(viewport.current.zoom * factor, { duration: 160 }), [flow]);
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || (event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName))) return;
      if (event.key === "+" || event.key === "=") scaleTo(1.25);
      else if (event.key === "-" || event.key === "−") scaleTo(1 / 1.25);
      else if (event.key === "z") fit();
      else if (event.key === "0") void flow?.zoomTo(1, { duration: 160 });
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [fit, flow, scaleTo]);

  const phone = usePhone();
  const narrow = size !== undefined && size.width < NARROW;
  return (
    <div className="stage" ref={host} onClick={pickFar} data-level={level.current} data-tight={grow(view.zoom) > 1.4 || undefined} style={{ "--grow": grow(view.zoom) } as React.CSSProperties}>
      <canvas className="paint" ref={paint} aria-hidden="true" />
      <div className="cards">
        <Suspense fallback={null}><Flow nodes={flow === undefined ? NO_NODES : nodes} view={view} minZoom={minZoom} onView={setView} onReady={setFlow} onDrawn={onDrawn} /></Suspense>
        {!drawn && <StillNodes nodes={nodes} view={view} />}
      </div>
      {store.loaded && store.tree.rows.size === 0 && store.live.size === 0 && <p className="empty">No messages yet. {phone ? "Write the first one with the button below." : "Write the first one, or press c."}</p>}
      {store.tree.branches.length > 1 && <Branches key={String(narrow)} store={store} path={steps} folded={narrow} onSelect={onSelect} onCompare={onCompare} onMerge={onMerge} />}
      <section className="map float" aria-label="map" hidden={store.loaded && store.tree.rows.size === 0}>
        <canvas ref={map} width={MAP.width} height={MAP.height} onPointerDown={jump} onPointerMove={jump} aria-hidden="true" />
        <div className="ctl">
          <Button icon="minus" label="Zoom out" kind="bare" small hideLabel onClick={() => scaleTo(1 / 1.25)} keys="−" />
          <span>{view.zoom < 0.01 ? (view.zoom * 100).toPrecision(1) : Math.round(view.zoom * 100)} %</span>
          <Button icon="plus" label="Zoom in" kind="bare" small hideLabel onClick={() => scaleTo(1.25)} keys="+" />
          <Button icon="fit" label="Show everything" kind="bare" small hideLabel onClick={fit} keys="z" />
        </div>
      </section>
    </div>
  );
}

/** Addresses of the pictures of a message, as soon as its contents are there. */
function picturesOf(store: SessionStore, row: Row): string[] | undefined {
  if ((row.images ?? 0) === 0) return undefined;
  return store.entries.get(row.id)?.message.content.flatMap((block) => (block.type === "image" && block.src !== undefined ? [block.src] : []));
}

function Branches({ store, path, folded, onSelect, onCompare, onMerge }: { store: SessionStore; path: ReadonlySet<string>; folded: boolean; onSelect: (id: string) => void; onCompare: () => void; onMerge: () => void }) {
  const { branches } = store.tree;
  const [open, setOpen] = useState(!folded);
  const count = plural(branches.length, "branch", "branches");
  if (!open)
    return <section className="heads float folded" aria-label="branches"><Button icon="branch" label={count} kind="bare" small onClick={() => setOpen(true)} /></section>;
  return (
    <section className="heads float" aria-label="branches">
      <header>{folded ? <Button icon="up" label={count} kind="bare" small onClick={() => setOpen(false)} /> : <b>{count}</b>}<span><Button icon="merge" label="Merge" kind="bare" small onClick={onMerge} /><Button icon="compare" label="Compare" kind="bare" small onClick={onCompare} /></span></header>
      <ul>
        {branches.slice(0, 8).map((branch) => {
          const to = store.tree.path(branch.head);
          const answers = to.flatMap((id) => store.tree.rows.get(id) ?? []).filter((row) => row.role === "assistant");
          const costs = answers.flatMap((row) => row.cost ?? []);
          return (
            <li key={branch.name}>
              <BranchChip name={branch.name} current={path.has(branch.head)} live={branch.live} onClick={() => onSelect(branch.head)} />
              <span>{plural(store.tree.length(to), "message")}</span>
              <span className={`num ${costs.length > 0 ? "" : "dim"}`}>{costs.length > 0 ? spent(costs.reduce((sum, one) => sum + one, 0), answers.length - costs.length) : "unknown"}</span>
            </li>
          );
        })}
        {branches.length > 8 && <li className="dim">{plural(branches.length - 8, "more", "more")}</li>}
      </ul>
    </section>
  );
}
