import "./tokens.css";
import "./ui.css";
import "./app.css";

import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

import { ApiError, enter } from "./http";
import { Gallery } from "./gallery";
import { Mark } from "./icons";
import { setToolDisplays } from "./parts";
import { currentRoute, useRoute } from "./route";
import { SessionPage } from "./session";
import { prefetch } from "./store";
import { applyTheme } from "./theme";
import type { Me } from "./types";

function App() {
  const route = useRoute();
  const [me, setMe] = useState<Me>();
  const [problem, setProblem] = useState<Error>();
  // The first rows are on their way meanwhile, so that they are drawn with the page and not after it.
  useEffect(() => void Promise.all([enter(), begun]).then(([me]) => { setToolDisplays(me.toolViews ?? {}); setMe(me); }, setProblem), []);
  if (problem !== undefined)
    return (
      <main className="failure">
        <Mark />
        <h1>{problem instanceof ApiError && problem.status === 401 ? "This address needs its token" : "The canvas cannot be reached"}</h1>
        <p>{problem instanceof ApiError && problem.status === 401 ? "Open the address that interlingua canvas printed. It works once; run the command again for another." : problem.message}</p>
      </main>
    );
  if (me === undefined) return null;
  return route.key === undefined ? <Gallery me={me} /> : <SessionPage id={route.key} write={me.scope === "write"} />;
}

applyTheme();
const { key, view, query } = currentRoute();
if (view === "transcript") void import("./markdown"); // wanted by the first message
const begun = key === undefined ? undefined : prefetch(key, { reading: view === "transcript", at: query.get("at") ?? undefined });
createRoot(document.getElementById("root")!).render(<StrictMode><App /></StrictMode>);
