/** The keyboard sheet. */

import { Dialog } from "./dialog";

const KEYS: [string, string][] = [
  ["j k", "next and previous message"], ["h l", "sibling branch"], ["g G", "first and last message"],
  ["1 2 3 4", "canvas, transcript, compare, wire"], ["/", "search"], ["c", "continue from here"], ["f", "fold the subtree"],
  ["o", "outline"], ["d", "doctor"], ["x", "what the model read"], ["r", "raw JSON"], ["e", "export"], ["t", "theme"],
  ["+ − 0", "zoom in, out, everything"], ["Ctrl Enter", "send"], ["Esc", "close what is on top"],
];

export function KeySheet({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <dl className="keysheet">{KEYS.map(([keys, what]) => <div key={keys}><dt>{keys.split(" ").map((key) => <kbd key={key}>{key}</kbd>)}</dt><dd>{what}</dd></div>)}</dl>
    </Dialog>
  );
}
