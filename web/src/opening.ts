/** Where the canvas of a session opens: at the place of the last visit, or at the selection. */

import { CARD, type Placed } from "./layout";
import { currentRoute } from "./address";

export type View = { x: number; y: number; zoom: number };
type Size = { width: number; height: number };

export const UNMOVED: View = { x: 40, y: 24, zoom: 1 };
export const MIN_HEIGHT = 300; // a lower stage, as a phone's map, shows the whole tree
export const NARROW = 832; // pixels: on a narrower stage the list of branches would cover a card in the middle
// The panels at the right edge, which are drawn after the first cards, as app.css has them.
const BRANCHES = { width: 282, header: 56, row: 28, rows: 8 };
const MAP_HEIGHT = 179;
const EDGE = 24;
const BESIDE = 10; // pixels between a card and a panel

const viewKey = (session: string) => `view ${session}`;

function keptView(session: string): View | undefined {
  try {
    const kept = JSON.parse(localStorage.getItem(viewKey(session)) ?? "null") as View | null;
    return kept !== null && [kept.x, kept.y, kept.zoom].every(Number.isFinite) ? kept : undefined;
  } catch {
    return undefined;
  }
}

export function keepView(session: string, view: View): void {
  try {
    localStorage.setItem(viewKey(session), JSON.stringify(view));
  } catch {
    // A full or forbidden storage: the next visit begins at the selection.
  }
}

/** Whether some of a card is inside the window at this view. */
function isSeen(card: Placed, view: View, size: Size): boolean {
  const [left, top] = [card.x * view.zoom + view.x, card.y * view.zoom + view.y];
  return left < size.width && top < size.height && left + CARD * view.zoom > 0 && top + card.height * view.zoom > 0;
}

/** Lanes begin at the left edge; a tree that is taller than the view opens at the selection, which no panel covers. */
export function openingView(session: string, selected: Placed, cards: readonly Placed[], size: Size, branches: number): View {
  const kept = currentRoute().query.has("at") ? undefined : keptView(session);
  if (kept !== undefined && cards.some((card) => isSeen(card, kept, size))) return kept;
  // A tree that is wider than the view is shown around the selection, with no empty half beside its last lane.
  const wide = cards.reduce((most, card) => Math.max(most, card.x + CARD), 0);
  const x = selected.x + CARD + UNMOVED.x + EDGE <= size.width ? UNMOVED.x : Math.max((size.width - CARD) / 2 - selected.x, size.width - EDGE - wide);
  const bottom = Math.min(size.height * 0.72, size.height - MAP_HEIGHT - BESIDE);
  const y = Math.min(UNMOVED.y, bottom - selected.y - selected.height);
  const beneath = branches > 1 && x + selected.x + CARD > size.width - BRANCHES.width - BESIDE;
  const rows = size.width < NARROW ? 0 : Math.min(branches, BRANCHES.rows + 1);
  const top = BRANCHES.header + rows * BRANCHES.row + BESIDE;
  return { x, y: beneath ? Math.max(y, Math.min(top, bottom - selected.height) - selected.y) : y, zoom: 1 };
}
