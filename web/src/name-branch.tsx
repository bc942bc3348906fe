/** Give the path that is shown a name. */

import { useState } from "react";

import { post } from "./http";
import { Dialog } from "./dialog";
import { Icon } from "./icons";
import { Button } from "./parts";
import type { SessionStore } from "./store";

export default function NameBranch({ store, entry, onClose }: { store: SessionStore; entry: string; onClose: () => void }) {
  const before = store.tree.branchOf(entry)?.name ?? "";
  const [name, setName] = useState(before);
  const [problem, setProblem] = useState<string>();
  const save = () =>
    void post(`/api/sessions/${store.key}/branches/${encodeURIComponent(name.trim())}`, { head: entry }, "PUT").then(onClose, (error: Error) => setProblem(error.message));
  return (
    <Dialog title="Name this branch" onClose={onClose}>
      <form className="finder" onSubmit={(event) => { event.preventDefault(); save(); }}>
        <input className="field big" value={name} onChange={(event) => setName(event.target.value)} placeholder="a short name" aria-label="name of the branch" />
        <Button label="Save" kind="go" disabled={name.trim() === "" || name.trim() === before} onClick={save} />
      </form>
      {problem !== undefined && <p className="err" role="alert"><Icon name="alert" />{problem}</p>}
    </Dialog>
  );
}
