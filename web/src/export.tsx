/** An exported session, opened from disk: the same renderer, with the data in the page and no network. */

import "./tokens.css";
import "./ui.css";
import "./app.css";

import { createRoot } from "react-dom/client";

import { parse } from "./exact";
import { Exported } from "./exported";
import { applyTheme } from "./theme";

applyTheme();
const data = document.getElementById("canvas-data")?.textContent;
const root = createRoot(document.getElementById("root")!);
if (data === undefined || data === null) root.render(<p className="empty">This page is the shell of an export; it holds no conversation.</p>);
else root.render(<Exported data={parse(data) as never} />);
