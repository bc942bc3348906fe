/** A sub-agent's conversation beside the call that started it: what it was asked, how much it did, and a way in. */

import { useEffect, useState } from "react";

import { get } from "./api";
import { cost, plural } from "./format";
import { Icon } from "./icons";
import { CARD } from "./layout";
import { navigate } from "./route";
import type { Session } from "./types";

export const FRAME_HEIGHT = 118;

export function Frame({ id }: { id: string }) {
  const [session, setSession] = useState<Session>();
  const [missing, setMissing] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    get<Session>(`/api/sessions/${id}`, {}, abort.signal).then(setSession, () => abort.signal.aborted || setMissing(true));
    return () => abort.abort();
  }, [id]);
  return (
    <section className="frame" style={{ width: CARD, height: FRAME_HEIGHT }} aria-label="sub-agent">
      <header><span className="role agent"><Icon name="assistant" /></span><b>sub-agent</b><span className="figs push">{session === undefined ? "" : cost(session.cost)}</span></header>
      <p className="cut"><i className="far user" />{missing ? "its session cannot be found" : (session?.title ?? "…")}</p>
      <p className="cut"><i className="far tool" />{session === undefined ? "" : `${plural(session.messages, "message")}, ${session.models[0] ?? "model unknown"}`}</p>
      <button type="button" className="btn small bare" disabled={session === undefined} onClick={(event) => { event.stopPropagation(); navigate(`/s/${id}/canvas`); }}><Icon name="right" />Open it</button>
    </section>
  );
}
