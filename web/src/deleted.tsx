/** Deleted sessions: restore them while there is time, or delete them for good. */

import { useEffect, useRef, useState } from "react";

import { Dialog } from "./dialog";
import { clock, date, plural, remaining } from "./format";
import { get, post } from "./http";
import { Icon } from "./icons";
import { Button, Loading } from "./parts";
import { restoreSession } from "./removing";
import type { Deleted } from "./types";

const HOUR = 3_600_000; // milliseconds

/** `epoch` changes when the list may have changed on the server. */
export default function DeletedSessions({ epoch, onDone, onProblem }: { epoch: number; onDone: (text: string) => void; onProblem: (error: Error) => void }) {
  const [sessions, setSessions] = useState<Deleted[]>();
  const [asking, setAsking] = useState<Deleted>();
  const [, setNow] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const left = useRef<number>(undefined); // the position of the row that an action removed
  useEffect(() => {
    const abort = new AbortController();
    get<{ sessions: Deleted[] }>("/api/deleted", {}, abort.signal).then((found) => setSessions(found.sessions), (error: Error) => abort.signal.aborted || onProblem(error));
    return () => abort.abort();
  }, [epoch]);
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), HOUR / 60);
    return () => window.clearInterval(timer);
  }, []);
  useEffect(() => {
    if (left.current === undefined) return;
    const next = list.current?.querySelectorAll<HTMLElement>("[data-restore] > .btn:first-child") ?? [];
    next[Math.min(left.current, next.length - 1)]?.focus();
    left.current = undefined;
  }, [sessions]);

  const done = (one: Deleted, text: string) => {
    left.current = sessions?.indexOf(one);
    setSessions((before) => before?.filter((other) => other !== one));
    onDone(text);
  };
  const restore = (one: Deleted) => void restoreSession(one.key, one.at).then(() => done(one, `Restored “${one.title}”.`), onProblem);
  const purge = (one: Deleted) => {
    setAsking(undefined);
    void post(`/api/deleted/${one.key}?at=${one.at}`, {}, "DELETE").then(() => done(one, `Deleted “${one.title}” for good.`), onProblem);
  };
  if (sessions === undefined) return <Loading />;
  if (sessions.length === 0) return <div className="empty"><p>No deleted sessions.</p><p>A deleted session stays here for a week, then it is removed for good.</p></div>;
  return (
    <>
      <ul className="gonelist" aria-label="deleted sessions" ref={list}>
        {sessions.map((one) => (
          <li key={`${one.key} ${one.at}`}>
            <span className="t"><b className="cut">{one.title}</b><span className="dim cut">{one.group} · {plural(one.messages, "message")}</span></span>
            <span className="dim num when">Deleted {date(one.at)}, {clock(one.at)}</span>
            <span className={`num left ${one.undoUntil - Date.now() < 24 * HOUR ? "soon" : ""}`}>{remaining(one.undoUntil - Date.now())}</span>
            <span className="do" data-restore><Button label="Restore" small onClick={() => restore(one)} /><Button icon="trash" label={`Delete ${one.title} for good`} kind="bare" small hideLabel onClick={() => setAsking(one)} /></span>
          </li>
        ))}
      </ul>
      {asking !== undefined && (
        <Dialog title="Delete for good" onClose={() => setAsking(undefined)}>
          <p>“{asking.title}” ({plural(asking.messages, "message")}) and its media are removed permanently.</p>
          <p className="err"><Icon name="alert" />This cannot be undone.</p>
          <footer><Button label="Cancel" kind="bare" onClick={() => setAsking(undefined)} /><Button icon="trash" label="Delete for good" kind="stop" onClick={() => purge(asking)} /></footer>
        </Dialog>
      )}
    </>
  );
}
