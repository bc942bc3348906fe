/** The keyboard sheet. */

import { useState } from "react";

import { Dialog } from "./dialog";

const OFF = "single-keys-off";

/** Whether keys without Ctrl do something: speech input and slips of the hand press them unasked. */
export function hasSingleKeys(): boolean {
  try {
    return localStorage.getItem(OFF) === null;
  } catch {
    return true;
  }
}

function setSingleKeys(on: boolean): void {
  try {
    if (on) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "1");
  } catch {
    // a page without storage keeps them on
  }
}

const KEYS: [string, string][] = [
  ["j k", "next and previous message"], ["h l", "sibling branch"], ["[ ]", "previous and next fork"], ["g G", "first and last message"],
  ["1 2 3 4", "canvas, transcript, compare, wire"], ["/", "search in this session"], ["y n a", "allow, deny or always allow a tool call"], ["c", "continue from here"], ["space", "fold everything below"], ["F", "fold the run to the next fork"], ["shift space", "fold all tool loops"],
  ["o", "outline"], ["d", "doctor"], ["x", "what the model read, cache, charts"], ["r", "raw JSON"], ["e", "edit and branch"], ["b", "name the branch"], ["M", "merge branches"], ["N", "write a note"], ["shift ↑ ↓", "rate the answer"], ["n p", "next and previous loss, finding or difference"], ["Ctrl P", "print the transcript"], ["shift e", "export"], ["t", "theme"],
  ["+ − 0 z", "zoom in, out, to 100 %, to fit"], ["Ctrl K", "commands"], ["Ctrl F", "search in this session"], ["Ctrl Enter", "send"], ["Esc", "close the top layer; press twice to stop the answer"],
];

export function KeySheet({ onClose }: { onClose: () => void }) {
  const [on, setOn] = useState(hasSingleKeys);
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <label className="opt"><input type="checkbox" checked={on} onChange={(event) => { setSingleKeys(event.target.checked); setOn(hasSingleKeys()); }} /> Keys without Ctrl. Off, the rail and Ctrl K do the same.</label>
      <dl className="keysheet">{KEYS.map(([keys, what]) => <div key={keys}><dt>{keys.split(" ").map((key) => <kbd key={key}>{key}</kbd>)}</dt><dd>{what}</dd></div>)}</dl>
    </Dialog>
  );
}
