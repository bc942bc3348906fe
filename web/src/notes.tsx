/** What people think of a message: a rating, and notes beside it. */

import { useReducer } from "react";

import { post } from "./http";
import { clock, day } from "./format";
import { Icon } from "./icons";
import { Button } from "./parts";
import { visible } from "./plain";
import type { SessionStore } from "./store";
import type { EntryView, Row } from "./types";

const place = (store: SessionStore, entry: string) => `/api/sessions/${store.key}/entries/${encodeURIComponent(entry)}/notes`;

/** Good, bad, or taken back by choosing the same again. */
export function Rating({ store, row }: { store: SessionStore; row: Row }) {
  const rate = (rating: number) => void post(place(store, row.id), { rating: row.rating === rating ? 0 : rating }).catch((error: Error) => store.fail(error));
  return (
    <>
      <Button icon="good" label="Good answer" kind="bare" small hideLabel pressed={row.rating === 1} onClick={() => rate(1)} keys="shift ↑" />
      <Button icon="poor" label="Poor answer" kind="bare" small hideLabel pressed={row.rating === -1} onClick={() => rate(-1)} keys="shift ↓" />
    </>
  );
}

export function Notes({ store, entry, write, writing, onDone }: { store: SessionStore; entry: EntryView; write?: boolean; writing: boolean; onDone: () => void }) {
  const notes = (entry.notes ?? []).filter((note) => note.text !== undefined);
  const failed = (error: Error) => store.fail(error);
  // The draft is the store's: this view goes when its message is scrolled away or loaded anew. While it is saved the
  // field is gone, so that the next keys are the page's and a second Enter writes no second note.
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const { text, saving } = store.drafts.get(entry.id) ?? { text: "", saving: false };
  const setText = (text: string) => { store.drafts.set(entry.id, { text, saving: false }); redraw(); };
  const save = () => {
    store.drafts.set(entry.id, { text, saving: true });
    store.changed();
    void post(place(store, entry.id), { text }).then(
      () => { store.drafts.delete(entry.id); onDone(); },
      (error: Error) => { store.drafts.set(entry.id, { text, saving: false }); failed(error); },
    );
  };
  if (notes.length === 0 && !writing) return null;
  return (
    <div className="notes" onClick={(event) => event.stopPropagation()}>
      {notes.map((note) => (
        <p key={note.id}><Icon name="note" className="s" /><span>{visible(note.text ?? "")}</span><span className="dim">{[note.by, day(note.at), clock(note.at)].filter(Boolean).join(" · ")}</span>{write && <Button icon="x" label="Remove note" kind="bare" small hideLabel onClick={() => void post(`${place(store, entry.id)}/${encodeURIComponent(note.id)}`, {}, "DELETE").catch(failed)} />}</p>
      ))}
      {writing && !saving && (
        <form onSubmit={(event) => { event.preventDefault(); if (text.trim() !== "") save(); }}>
          <input ref={(element) => element?.focus()} className="field" value={text} onChange={(event) => setText(event.target.value)} onKeyDown={(event) => { if (event.key === "Escape") onDone(); }} placeholder="Write a note; it is not sent to any model" aria-label="note" />
          <Button label="Save note" small disabled={text.trim() === ""} onClick={save} />
        </form>
      )}
    </div>
  );
}
