/** A button that copies a text, and says that it did. */

import { useEffect, useState } from "react";

import { Button } from "./parts";

const SHOWN = 1500; // ms for which the button says what happened

/** The older way is for pages without the newer one: frames of notebooks, and addresses without TLS. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const focused = document.activeElement;
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (focused instanceof HTMLElement) focused.focus();
    return done;
  }
}

export function CopyButton({ icon, label, text, ...how }: { icon: string; label: string; text: () => string; kind?: "bare"; hideLabel?: boolean }) {
  const [done, setDone] = useState<boolean>();
  useEffect(() => {
    if (done === undefined) return;
    const timer = window.setTimeout(() => setDone(undefined), SHOWN);
    return () => window.clearTimeout(timer);
  }, [done]);
  return <Button icon={done === undefined ? icon : done ? "check" : "x"} label={done === undefined ? label : done ? "Copied" : "Not copied: the browser forbids it"} small {...how} onClick={() => void copy(text()).then(setDone)} />;
}
