/** The stored JSON of one entry, as it is in the file. */

import { useEffect, useState } from "react";

import { get } from "./http";
import { Dialog } from "./dialog";
import { visible } from "./plain";

export default function Raw({ session, entry, onClose }: { session: string; entry: string; onClose: () => void }) {
  const [text, setText] = useState("");
  const [total, setTotal] = useState(0);
  const load = (offset: number) =>
    get<{ text: string; offset: number; total: number }>(`/api/sessions/${session}/entries/${encodeURIComponent(entry)}/raw`, { offset, limit: 200_000 }).then(
      (page) => { setText((before) => (offset === 0 ? page.text : before + page.text)); setTotal(page.total); },
      (error: Error) => setText(error.message),
    );
  useEffect(() => void load(0), [session, entry]); // eslint-disable-line
  return (
    <Dialog title="Stored JSON" onClose={onClose} wide>
      <pre className="lines rawjson" tabIndex={0}>{visible(text)}</pre>
      {text.length < total && <button type="button" className="btn small" onClick={() => void load(text.length)}>Show {(total - text.length).toLocaleString()} more characters</button>}
    </Dialog>
  );
}
