/** A sub-agent's conversation beside the call that started it: what it was asked and how much it did; opened, its own cards. */

import { useEffect, useMemo, useState, type ReactNode } from "react";

import { get } from "./http";
import { Card, heightOf, LIVE_HEIGHT } from "./card";
import { cost, plural } from "./format";
import { Icon } from "./icons";
import { CARD, LANE, layout, type Sized } from "./layout";
import { navigate } from "./route";
import { liveRow, shown, UNFOLDED } from "./scene";
import { SessionStore, useStore } from "./store";
import { isMessage, type TreeModel } from "./tree";
import type { LiveNode, Row, Session } from "./types";

export const FRAME_HEIGHT = 118;
const SCALE = 0.85;
const HEAD = 44;
const PAD = 12;
const MOST = 400; // cards in a frame; a longer conversation is opened as a session

const NONE: ReadonlyMap<string, LiveNode> = new Map();

/** How much room an opened frame takes: its height, and how many lanes it stands across. */
export type FrameSize = { height: number; lanes: number };

export type FrameProps = { id: string; size?: FrameSize; onSize: (id: string, size: FrameSize | undefined) => void; store: SessionStore; onSelect: (id: string) => void };

export function Frame(props: FrameProps) {
  return props.id.startsWith("@") ? <Thread {...props} first={props.id.slice(1)} /> : <Spawned {...props} />;
}

/** A sub-agent with a session of its own. */
function Spawned({ id, size, onSize }: FrameProps) {
  const [session, setSession] = useState<Session>();
  const [missing, setMissing] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    get<Session>(`/api/sessions/${id}`, {}, abort.signal).then(setSession, () => abort.signal.aborted || setMissing(true));
    return () => abort.abort();
  }, [id]);
  const about = session && { title: session.title, messages: session.messages, model: session.models[0], cost: session.cost };
  return (
    <Shell id={id} size={size} onSize={onSize} about={about} missing={missing} label="As a session" onGo={() => navigate(`/s/${id}/canvas`)}>
      {size !== undefined && <Opened id={id} size={size} onSize={onSize} />}
    </Shell>
  );
}

/** A sub-agent in the same file as the call. */
function Thread({ id, first, size, onSize, store, onSelect }: FrameProps & { first: string }) {
  const rows = store.tree.below(first);
  const tree = useMemo(() => store.tree.thread(first), [rows.length, store.tree.version]); // eslint-disable-line
  const costs = rows.flatMap((row) => row.cost ?? []);
  const about = { title: rows[0]?.text ?? "", messages: rows.filter(isMessage).length, model: rows.find((row) => row.model !== undefined)?.model, cost: costs.length > 0 ? costs.reduce((sum, one) => sum + one, 0) : undefined };
  return (
    <Shell id={id} size={size} onSize={onSize} about={about} label="Read" onGo={() => navigate(`/s/${store.key}/transcript?at=${encodeURIComponent(first)}`)}>
      {size !== undefined && <Inside id={id} size={size} onSize={onSize} tree={tree} live={NONE} loaded onPick={onSelect} />}
    </Shell>
  );
}

type About = { title: string; messages: number; model?: string; cost?: number };

function Shell({ id, size, onSize, about, missing = false, label, onGo, children }: Pick<FrameProps, "id" | "size" | "onSize"> & { about?: About; missing?: boolean; label: string; onGo: () => void; children: ReactNode }) {
  const open = size !== undefined;
  const width = open ? size.lanes * LANE - (LANE - CARD) : CARD;
  return (
    <section className={`frame ${open ? "opened" : ""}`} style={{ width, height: open ? size.height : FRAME_HEIGHT }} aria-label="sub-agent">
      <header><span className="role agent"><Icon name="assistant" /></span><b>sub-agent</b><span className="cut dim" dir="auto">{open ? about?.title : ""}</span><span className="figs push">{about === undefined ? "" : cost(about.cost)}</span></header>
      {!open && <p><i className="far user" /><span className="cut" dir="auto" title={about?.title}>{missing ? "its session cannot be found" : (about?.title ?? "…")}</span></p>}
      {!open && <p><i className="far tool" /><span className="cut">{about === undefined ? "" : `${plural(about.messages, "message")}, ${about.model ?? "model unknown"}`}</span></p>}
      {children}
      <div className="do">
        <button type="button" className="btn small bare" disabled={about === undefined} aria-expanded={open} onClick={(event) => { event.stopPropagation(); onSize(id, open ? undefined : { height: FRAME_HEIGHT + HEAD, lanes: 1 }); }}><Icon name={open ? "fold" : "unfold"} />{open ? "Close" : "Open in place"}</button>
        <button type="button" className="btn small bare" disabled={about === undefined} onClick={(event) => { event.stopPropagation(); onGo(); }}><Icon name="right" />{label}</button>
      </div>
    </section>
  );
}

type Sizing = { id: string; size: FrameSize; onSize: (id: string, size: FrameSize) => void };

function Opened({ id, size, onSize }: Sizing) {
  const [own] = useState(() => new SessionStore(id));
  useEffect(() => {
    void own.open();
    return () => own.close();
  }, [own]);
  const store = useStore(own);
  return <Inside id={id} size={size} onSize={onSize} tree={store.tree} live={store.live} loaded={store.loaded} onPick={(entry) => navigate(`/s/${id}/canvas?at=${encodeURIComponent(entry)}`)} />;
}

/** The same cards, smaller, forks and live answers included. */
function Inside({ id, size, onSize, tree, live, loaded, onPick }: Sizing & { tree: TreeModel; live: ReadonlyMap<string, LiveNode>; loaded: boolean; onPick: (entry: string) => void }) {
  const { cards, wide, high, left } = useMemo(() => {
    const scene = shown({ tree }, UNFOLDED);
    const rows: { row: Row; sized: Sized }[] = scene.rows.slice(0, MOST).map((row) => ({ row, sized: { id: row.id, parent: scene.above.get(row.id), height: heightOf(row) } }));
    for (const node of live.values()) rows.push({ row: liveRow(node), sized: { id: node.node, parent: node.parent === undefined ? undefined : scene.card.get(node.parent), height: LIVE_HEIGHT } });
    const placed = layout(rows.map((one) => one.sized));
    const all = rows.flatMap(({ row }) => { const at = placed.get(row.id); return at === undefined ? [] : [{ row, at }]; });
    return { cards: all, wide: Math.max(CARD, ...all.map(({ at }) => at.x + CARD)), high: Math.max(0, ...all.map(({ at }) => at.y + at.height)), left: scene.rows.length - Math.min(MOST, scene.rows.length) };
  }, [tree, tree.version, [...live.keys()].join()]); // eslint-disable-line
  useEffect(() => {
    const wanted = { height: Math.ceil(HEAD + high * SCALE + 40 + PAD), lanes: Math.max(1, Math.ceil((wide * SCALE + 2 * PAD) / LANE)) };
    if (loaded && (wanted.height !== size.height || wanted.lanes !== size.lanes)) onSize(id, wanted);
  }, [id, wide, high, size, onSize, loaded]);
  const path = new Set(tree.path(tree.head));
  return (
    <div className="inside" style={{ height: high * SCALE }}>
      <div style={{ transform: `scale(${SCALE})`, transformOrigin: "0 0", width: wide }}>
        {cards.map(({ row, at }) => (
          <div key={row.id} className="place" style={{ left: at.x, top: at.y }} onClick={(event) => { event.stopPropagation(); onPick(row.id); }}>
            <Card row={row} live={live.get(row.id)} results={(row.calls ?? []).map((call) => tree.result(row.id, call.id, 0, path))} state={{ onPath: path.has(row.id), selected: false }} />
          </div>
        ))}
      </div>
      {left > 0 && <p className="dim">{plural(left, "more message")}: open it as a session</p>}
    </div>
  );
}
