/** The keyboard sheet. */

import { Dialog } from "./dialog";

const KEYS: [string, string][] = [
  ["j k", "next and previous message"], ["h l", "sibling branch"], ["[ ]", "previous and next fork"], ["g G", "first and last message"],
  ["1 2 3 4", "canvas, transcript, compare, wire"], ["/", "search in this session"], ["y n a", "allow, deny or always allow a tool call"], ["c", "continue from here"], ["space", "fold everything below"], ["F", "fold the run to the next fork"], ["shift space", "fold all tool loops"],
  ["o", "outline"], ["d", "doctor"], ["x", "what the model read, cache, charts"], ["r", "raw JSON"], ["e", "edit and branch"], ["b", "name the branch"], ["M", "merge branches"], ["N", "write a note"], ["shift ↑ ↓", "rate the answer"], ["n p", "next and previous loss, finding or difference"], ["Ctrl P", "print the transcript"], ["shift e", "export"], ["t", "theme"],
  ["+ − 0 z", "zoom in, out, to 100 %, to fit"], ["Ctrl K", "commands"], ["Ctrl F", "search in this session"], ["Ctrl Enter", "send"], ["Esc", "close the top layer; press twice to stop the answer"],
];

export function KeySheet({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl className="keysheet">{KEYS.map(([keys, what]) => <div key={keys}><dt>{keys.split(" ").map((key) => <kbd key={key}>{key}</kbd>)}</dt><dd>{what}</dd></div>)}</dl>
    </Dialog>
  );
}
