/** Give the session another title. */

import { useState } from "react";

import { post } from "./http";
import { Dialog } from "./dialog";
import { Icon } from "./icons";
import { Button } from "./parts";
import type { SessionStore } from "./store";

export default function Rename({ store, onClose }: { store: SessionStore; onClose: () => void }) {
  const before = store.session?.title ?? "";
  const [title, setTitle] = useState(before);
  const [problem, setProblem] = useState<string>();
  const ready = title.trim() !== "" && title.trim() !== before;
  const save = () => void post(`/api/sessions/${store.key}`, { title: title.trim() }, "PATCH").then(onClose, (error: Error) => setProblem(error.message));
  return (
    <Dialog title="Rename this session" onClose={onClose}>
      <form className="finder" onSubmit={(event) => { event.preventDefault(); if (ready) save(); }}>
        <input className="field big" value={title} onChange={(event) => setTitle(event.target.value)} aria-label="title" />
        <Button label="Save" kind="go" disabled={!ready} onClick={save} />
      </form>
      {problem !== undefined && <p className="err" role="alert"><Icon name="alert" />{problem}</p>}
    </Dialog>
  );
}
