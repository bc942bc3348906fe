/** The page: all sessions, one session, or why neither can be shown. */

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { ApiError } from "./http";
import { Gallery } from "./gallery";
import { Mark } from "./icons";
import { setToolDisplays } from "./parts";
import { useRoute } from "./route";
import { SessionPage } from "./session";
import type { Me } from "./types";

function App({ me }: { me: Me }) {
  const route = useRoute();
  return route.key === undefined ? <Gallery me={me} /> : <SessionPage id={route.key} write={me.scope === "write"} />;
}

function Failure({ error }: { error: Error }) {
  const needsToken = error instanceof ApiError && error.status === 401;
  return (
    <main className="failure">
      <Mark />
      <h1>{needsToken ? "This address needs its token" : "The canvas cannot be reached"}</h1>
      <p>{needsToken ? "Open the address that interlingua canvas printed. It works once; run the command again for another." : error.message}</p>
    </main>
  );
}

export function mount(at: Element, me: Me | Error): void {
  const root = createRoot(at);
  if (me instanceof Error) return root.render(<Failure error={me} />);
  setToolDisplays(me.toolViews ?? {});
  root.render(<StrictMode><App me={me} /></StrictMode>);
}
