/** The entry: sends the first requests, then loads the page. What is drawn first arrives while its code is compiled. */

import "@xyflow/react/dist/base.css";

import "./tokens.css";
import "./ui.css";
import "./app.css";

import { enter } from "./http";
import { currentRoute } from "./route";
import { prefetch } from "./store";
import { applyTheme } from "./theme";

applyTheme();
const { key, view, query } = currentRoute();
const rows = key === undefined ? undefined : prefetch(key, { reading: view === "transcript", at: query.get("at") ?? undefined });
const ready = Promise.all([enter(), rows]);
ready.catch(() => undefined); // the page shows the error
if (view === "transcript") void import("./markdown"); // the first message needs it
void import("./main").then(({ mount }) => ready.then(([me]) => mount(me), (error: Error) => mount(error)));
