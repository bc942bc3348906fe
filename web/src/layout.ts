/**
 * Where cards stand: lanes from left to right, time from top to bottom. Pure; runs in a worker for large trees.
 *
 * The first child goes on in its parent's lane. Every further child opens the nearest lane to the right in which its
 * whole subtree is free, so that edges never cross cards and a lane never changes sides.
 */

export const CARD = 268;
export const LANE = CARD + 44;
export const GAP = 24;
export const FORK = 60; // room for the ring, the horizontal and the names of the branches

/** `beside`: a frame that stands level with its parent, in the nearest `lanes` where it has room. */
export type Sized = { id: string; parent?: string; height: number; beside?: boolean; lanes?: number };
export type Placed = { id: string; x: number; y: number; height: number; lane: number };

export type Box = { left: number; top: number; right: number; bottom: number };

const EDGE = 24; // pixels between what is shown and the edges of the view
const BESIDE = 10; // and between a card and a panel

/**
 * The view that shows all cards as large as they can be, at most at their own size, with none beneath a panel.
 *
 * Panels stand at the edges. Free areas beside, above and below them are tried, and the whole view too: often no card
 * is where a panel is.
 */
export function fitted(cards: readonly Placed[], bounds: { width: number; height: number }, size: { width: number; height: number }, panels: readonly Box[]): { x: number; y: number; zoom: number } {
  const lefts = [size.width, ...panels.map((one) => one.left)];
  const tops = [0, ...panels.map((one) => one.bottom)];
  const bottoms = [size.height, ...panels.map((one) => one.top)];
  let best: { x: number; y: number; zoom: number } | undefined;
  for (const right of lefts)
    for (const top of tops)
      for (const bottom of bottoms) {
        const [width, height] = [right - 2 * EDGE, bottom - top - 2 * EDGE];
        if (width < 40 || height < 40) continue;
        const zoom = Math.min(width / bounds.width, height / bounds.height, 1);
        if (best !== undefined && zoom <= best.zoom) continue;
        const y = top + EDGE + Math.max(0, (height - bounds.height * zoom) / 2);
        for (const x of [(right - bounds.width * zoom) / 2, EDGE])
          if (best === undefined || zoom > best.zoom) {
            const view = { x: Math.max(x, EDGE), y, zoom };
            if (!cards.some((card) => panels.some((panel) => isBeneath(card, view, panel)))) best = view;
          }
      }
  const zoom = Math.min((size.width - 2 * EDGE) / bounds.width, (size.height - 2 * EDGE) / bounds.height, 1);
  return best ?? { x: (size.width - bounds.width * zoom) / 2, y: Math.max(EDGE, (size.height - bounds.height * zoom) / 2), zoom };
}

/** Whether a card at this view is beneath a panel, or as near to it as beside it. */
export function isBeneath(card: Placed, view: { x: number; y: number; zoom: number }, panel: Box): boolean {
  const [left, top] = [card.x * view.zoom + view.x, card.y * view.zoom + view.y];
  const [right, bottom] = [left + CARD * view.zoom, top + card.height * view.zoom];
  return left < panel.right + BESIDE && right > panel.left - BESIDE && top < panel.bottom + BESIDE && bottom > panel.top - BESIDE;
}

type Item = { id: string; height: number; children: Item[] };

export function layout(nodes: readonly Sized[]): Map<string, Placed> {
  const items = new Map<string, Item>();
  const roots: Item[] = [];
  const frames: Sized[] = [];
  for (const node of nodes) {
    if (node.beside) {
      frames.push(node);
      continue;
    }
    const item: Item = { id: node.id, height: node.height, children: [] };
    items.set(node.id, item);
    const parent = node.parent === undefined ? undefined : items.get(node.parent);
    if (parent === undefined) roots.push(item);
    else parent.children.push(item);
  }
  const placed = new Map<string, Placed>();
  const bottoms: number[] = []; // the lowest y that is taken, by lane
  const tops: number[] = []; // and the highest
  const pending: { node: Item; lane: number; y: number }[] = [];
  for (const root of [...roots].reverse()) pending.push({ node: root, lane: -1, y: 0 });
  // Depth first, and in order: what stands further left and was born earlier takes its place first.
  while (pending.length > 0) {
    const next = pending.pop()!;
    let { lane } = next;
    let y = next.y;
    if (lane < 0) {
      lane = firstFree(bottoms, -lane - 1, y);
    }
    let node: Item | undefined = next.node;
    while (node !== undefined) {
      const { id, height, children }: Item = node;
      placed.set(id, { id, x: lane * LANE, y, height, lane });
      bottoms[lane] = y + height;
      tops[lane] = Math.min(tops[lane] ?? Infinity, y);
      y += height + (children.length > 1 ? FORK : GAP);
      for (const child of children.slice(1).reverse()) pending.push({ node: child, lane: -(lane + 1) - 1, y });
      node = children[0];
    }
  }
  for (const frame of frames) {
    const parent = placed.get(frame.parent ?? "");
    if (parent === undefined) continue;
    const free = (at: number) => (bottoms[at] ?? -Infinity) + GAP <= parent.y || (tops[at] ?? Infinity) >= parent.y + frame.height + FORK;
    const across = Array.from({ length: frame.lanes ?? 1 }, (_, at) => at);
    let lane = parent.lane + 1;
    while (!across.every((at) => free(lane + at))) lane += 1;
    placed.set(frame.id, { id: frame.id, x: lane * LANE, y: parent.y, height: frame.height, lane });
    for (const at of across) {
      bottoms[lane + at] = Math.max(bottoms[lane + at] ?? 0, parent.y + frame.height);
      tops[lane + at] = Math.min(tops[lane + at] ?? Infinity, parent.y);
    }
  }
  return placed;
}

/** The first lane from `from` on that is free from `y` downwards, in it and in all lanes between, so that the edge has room. */
function firstFree(bottoms: readonly number[], from: number, y: number): number {
  let lane = from;
  for (let at = from; at < bottoms.length; at += 1) if ((bottoms[at] ?? -1) > y - FORK) lane = at + 1;
  return lane;
}
