/** The entry: draws the first cards and sends the first requests, then loads the page. */

import "@xyflow/react/dist/base.css";

import "./tokens.css";
import "./ui.css";
import "./app.css";

import { currentRoute } from "./address";
import { embedded, prefetch } from "./beginning";
import { keepKeys } from "./early-keys";
import { drawFirst } from "./first";
import { enter } from "./http";
import { applyTheme } from "./theme";

/** Draws the first cards, if their rows came with the page, and then loads the page's code. */
async function start(): Promise<void> {
  const { key, view, query } = currentRoute();
  const root = document.getElementById("root")!;
  const page = key === undefined || view !== "canvas" ? undefined : embedded(key);
  if (page !== undefined) {
    drawFirst(root, page, query);
    await painted();
  }
  const rows = key === undefined || page !== undefined ? undefined : prefetch(key, { reading: view === "transcript", at: query.get("at") ?? undefined });
  const ready = Promise.all([enter(), rows]);
  ready.catch(() => undefined); // the page shows the error
  if (view === "transcript") void import("./markdown"); // the first message needs it
  const { mount } = await import("./main");
  ready.then(([me]) => mount(root, me), (error: Error) => mount(root, error));
}

const FRAME = 100; // ms: a tab that is not shown has no frames

/** Waits until what was drawn is on the screen: when the next frame begins. */
function painted(): Promise<void> {
  return new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(() => window.setTimeout(done)));
    window.setTimeout(done, FRAME);
  });
}

applyTheme();
keepKeys();
void start();
