/** The first cards of a tree, drawn as soon as their rows are there: before the page's code is run. */

import { setQuery } from "./address";
import { CardNode, heightOf, resultsOf } from "./card";
import { drawn } from "./drawn";
import { CARD, layout, type Placed } from "./layout";
import { MIN_HEIGHT, openingView, UNMOVED } from "./opening";
import { shown, storedFolds } from "./scene";
import { panelWidth } from "./stored-width";
import { Still, StillNode } from "./still";
import { TreeModel } from "./tree";
import type { Tree } from "./types";

/** Draws the cards in view where the page will draw them. A click is kept in the address, where the page finds it. */
export function drawFirst(root: Element, page: Tree, query: URLSearchParams): void {
  const tree = new TreeModel();
  tree.put(page.rows);
  tree.setHead(page.head, page.branches);
  const at = query.get("at") ?? undefined;
  const selected = [at, tree.head].find((id) => id !== undefined && tree.rows.has(id));
  const path = tree.through(selected, query.get("to") ?? undefined);
  const scene = shown({ tree }, storedFolds(page.view));
  const placed = layout(scene.rows.map((row) => ({ id: row.id, parent: scene.above.get(row.id), height: heightOf(row) })));

  root.replaceChildren(...drawn(<Surroundings />));
  const stage = root.querySelector(".stage")!;
  const size = { width: stage.clientWidth, height: stage.clientHeight };
  if (size.height < MIN_HEIGHT) return;
  const here = scene.card.get(selected ?? "");
  const one = placed.get(here ?? "");
  const view = one === undefined ? UNMOVED : openingView(page.session.key, one, [...placed.values()], size, tree.branches.length);
  if (view.zoom !== 1) return; // other levels have other cards
  const [steps, onPath] = [new Set(path), new Set(path.map((id) => scene.card.get(id)))];
  const seen = ({ x, y, height }: Placed) => x + view.x < size.width && x + view.x + CARD > 0 && y + view.y < size.height && y + view.y + height > 0;
  const draw = (marked: string | undefined) => {
    const cards = scene.rows.filter((row) => seen(placed.get(row.id)!)).map((row) => (
      <StillNode key={row.id} type="card" position={placed.get(row.id)!}>
        <CardNode data={{ row, results: resultsOf(tree, row, steps), state: { onPath: onPath.has(row.id), selected: row.id === marked, folded: scene.hidden.get(row.id) }, pick }} />
      </StillNode>
    ));
    stage.querySelector(".cards")!.replaceChildren(...drawn(<Still view={view}>{cards}</Still>));
  };
  const pick = (id: string) => {
    setQuery({ at: id });
    draw(id);
  };
  draw(here);
}

/** The page's areas, empty. */
function Surroundings() {
  return (
    <div className="app" data-view="canvas">
      <header className="top" />
      <div className="work canvaswork" style={{ "--panel-width": `${panelWidth()}px` } as React.CSSProperties}>
        <div className="rail" />
        <div className="left">
          <div className="stage" data-level="near"><div className="cards" /></div>
          <div className="ruler" />
        </div>
        <aside className="side" />
      </div>
    </div>
  );
}
