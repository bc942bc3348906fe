/** The keyboard sheet. */

import { Dialog } from "./dialog";

const KEYS: [string, string][] = [
  ["j k", "next and previous message"], ["h l", "sibling branch"], ["[ ]", "previous and next fork"], ["g G", "first and last message"],
  ["1 2 3 4", "canvas, transcript, compare, wire"], ["/", "search"], ["y n a", "allow, refuse, always allow"], ["c", "continue from here"], ["space", "fold what is below"],
  ["o", "outline"], ["d", "doctor"], ["x", "what the model read"], ["r", "raw JSON"], ["e", "edit and branch"], ["b", "name the branch"], ["M", "merge branches"], ["N", "note beside the message"], ["shift ↑ ↓", "rate the answer"], ["n p", "next and previous loss"], ["Ctrl P", "print the transcript"], ["shift e", "export"], ["t", "theme"],
  ["+ − 0 z", "zoom in, out, 100 %, everything"], ["Ctrl K", "commands"], ["Ctrl F", "find here"], ["Ctrl Enter", "send"], ["Esc", "close what is on top; twice: stop the answer"],
];

export function KeySheet({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <dl className="keysheet">{KEYS.map(([keys, what]) => <div key={keys}><dt>{keys.split(" ").map((key) => <kbd key={key}>{key}</kbd>)}</dt><dd>{what}</dd></div>)}</dl>
    </Dialog>
  );
}
