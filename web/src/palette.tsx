/** Everything that can be done here, by name: type, choose with the arrows, Enter. */

import { useEffect, useMemo, useRef, useState } from "react";

import { Dialog } from "./dialog";
import { Icon } from "./icons";
import { visible } from "./plain";

export type Action = { label: string; keys?: readonly string[]; icon?: string; run: () => void };

const SHOWN: Record<string, string> = { " ": "space", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" };

export default function Palette({ actions, onClose }: { actions: readonly Action[]; onClose: () => void }) {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const found = useMemo(() => {
    const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
    return actions.filter((action) => wanted.every((word) => action.label.toLowerCase().includes(word)));
  }, [query, actions]);
  const here = Math.min(at, found.length - 1);
  useEffect(() => { list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" }); }, [here]);
  const run = (action: Action | undefined) => {
    if (action === undefined) return;
    onClose();
    action.run();
  };
  const key = (event: React.KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && found.length > 0) {
      event.preventDefault();
      setAt((here + step + found.length) % found.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(found[here]);
    }
  };
  return (
    <Dialog title="Commands" onClose={onClose}>
      <input className="field big" value={query} onChange={(event) => { setQuery(event.target.value); setAt(0); }} onKeyDown={key} placeholder="Type a command" role="combobox" aria-label="command" aria-expanded aria-controls="commands" aria-activedescendant={here < 0 ? undefined : `command-${here}`} />
      <ul className="menu commands" id="commands" role="listbox" aria-label="commands" ref={list}>
        {found.map((action, n) => (
          <li key={action.label} id={`command-${n}`} role="option" aria-selected={n === here} className="row" onClick={() => run(action)} onPointerMove={() => setAt(n)}>
            {action.icon !== undefined ? <Icon name={action.icon} /> : <span className="noicon" />}<span className="cut">{visible(action.label)}</span>
            <span className="push">{action.keys?.slice(0, 1).map((one) => <kbd key={one}>{SHOWN[one] ?? one}</kbd>)}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p className="dim pad">Nothing here is called that.</p>}
    </Dialog>
  );
}
