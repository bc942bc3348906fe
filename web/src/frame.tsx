/** A sub-agent's conversation beside the call that started it: what it was asked and how much it did; opened, its own cards. */

import { useEffect, useMemo, useState } from "react";

import { get } from "./http";
import { Card, heightOf, LIVE_HEIGHT } from "./card";
import { cost, plural } from "./format";
import { Icon } from "./icons";
import { CARD, LANE, layout, type Sized } from "./layout";
import { navigate } from "./route";
import { liveRow, shown, UNFOLDED } from "./scene";
import { SessionStore, useStore } from "./store";
import type { Row, Session } from "./types";

export const FRAME_HEIGHT = 118;
const SCALE = 0.85;
const HEAD = 44;
const PAD = 12;
const MOST = 400; // cards in a frame; a longer conversation is opened as a session

/** How much room an opened frame takes: its height, and how many lanes it stands across. */
export type FrameSize = { height: number; lanes: number };

export function Frame({ id, size, onSize }: { id: string; size?: FrameSize; onSize: (id: string, size: FrameSize | undefined) => void }) {
  const [session, setSession] = useState<Session>();
  const [missing, setMissing] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    get<Session>(`/api/sessions/${id}`, {}, abort.signal).then(setSession, () => abort.signal.aborted || setMissing(true));
    return () => abort.abort();
  }, [id]);
  const open = size !== undefined;
  const width = open ? size.lanes * LANE - (LANE - CARD) : CARD;
  return (
    <section className={`frame ${open ? "opened" : ""}`} style={{ width, height: open ? size.height : FRAME_HEIGHT }} aria-label="sub-agent">
      <header><span className="role agent"><Icon name="assistant" /></span><b>sub-agent</b><span className="cut dim">{open ? session?.title : ""}</span><span className="figs push">{session === undefined ? "" : cost(session.cost)}</span></header>
      {!open && <p className="cut"><i className="far user" />{missing ? "its session cannot be found" : (session?.title ?? "…")}</p>}
      {!open && <p className="cut"><i className="far tool" />{session === undefined ? "" : `${plural(session.messages, "message")}, ${session.models[0] ?? "model unknown"}`}</p>}
      {open && <Inside id={id} size={size} onSize={onSize} />}
      <div className="do">
        <button type="button" className="btn small bare" disabled={session === undefined} aria-expanded={open} onClick={(event) => { event.stopPropagation(); onSize(id, open ? undefined : { height: FRAME_HEIGHT + HEAD, lanes: 1 }); }}><Icon name={open ? "fold" : "unfold"} />{open ? "Close" : "Open in place"}</button>
        <button type="button" className="btn small bare" disabled={session === undefined} onClick={(event) => { event.stopPropagation(); navigate(`/s/${id}/canvas`); }}><Icon name="right" />As a session</button>
      </div>
    </section>
  );
}

/** The same cards, smaller, forks and live answers included. */
function Inside({ id, size, onSize }: { id: string; size: FrameSize; onSize: (id: string, size: FrameSize) => void }) {
  const [own] = useState(() => new SessionStore(id));
  useEffect(() => {
    void own.open();
    return () => own.close();
  }, [own]);
  const store = useStore(own);
  const { cards, wide, high, left } = useMemo(() => {
    const scene = shown(store, UNFOLDED);
    const rows: { row: Row; sized: Sized }[] = scene.rows.slice(0, MOST).map((row) => ({ row, sized: { id: row.id, parent: scene.above.get(row.id), height: heightOf(row) } }));
    for (const node of store.live.values()) rows.push({ row: liveRow(node), sized: { id: node.node, parent: node.parent === undefined ? undefined : scene.card.get(node.parent), height: LIVE_HEIGHT } });
    const placed = layout(rows.map((one) => one.sized));
    const all = rows.flatMap(({ row }) => { const at = placed.get(row.id); return at === undefined ? [] : [{ row, at }]; });
    return { cards: all, wide: Math.max(CARD, ...all.map(({ at }) => at.x + CARD)), high: Math.max(0, ...all.map(({ at }) => at.y + at.height)), left: scene.rows.length - Math.min(MOST, scene.rows.length) };
  }, [store, store.tree.version, [...store.live.keys()].join()]); // eslint-disable-line
  useEffect(() => {
    const wanted = { height: Math.ceil(HEAD + high * SCALE + 40 + PAD), lanes: Math.max(1, Math.ceil((wide * SCALE + 2 * PAD) / LANE)) };
    if (store.loaded && (wanted.height !== size.height || wanted.lanes !== size.lanes)) onSize(id, wanted);
  }, [id, wide, high, size, onSize, store.loaded]);
  const path = new Set(store.tree.path(store.tree.head));
  return (
    <div className="inside" style={{ height: high * SCALE }}>
      <div style={{ transform: `scale(${SCALE})`, transformOrigin: "0 0", width: wide }}>
        {cards.map(({ row, at }) => (
          <div key={row.id} className="place" style={{ left: at.x, top: at.y }} onClick={(event) => { event.stopPropagation(); navigate(`/s/${id}/canvas?at=${encodeURIComponent(row.id)}`); }}>
            <Card row={row} live={store.live.get(row.id)} results={(row.calls ?? []).map((call) => store.tree.result(row.id, call.id, 0, path))} state={{ onPath: path.has(row.id), selected: false }} />
          </div>
        ))}
      </div>
      {left > 0 && <p className="dim">{plural(left, "more message")}: open it as a session</p>}
    </div>
  );
}
