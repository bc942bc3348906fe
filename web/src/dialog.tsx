/** A layer over the page that holds the focus until it is closed. */

import { useEffect, useRef, type ReactNode } from "react";

import { Button } from "./parts";

export function Dialog({ title, onClose, children, wide }: { title: string; onClose: () => void; children: ReactNode; wide?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    // The browser would choose the button that closes it.
    element?.querySelector<HTMLElement>(".dialogbody :is(input, textarea, select, pre)")?.focus();
    return () => element?.close();
  }, []);
  return (
    <dialog ref={dialog} className={`dialog float ${wide ? "wide" : ""}`} aria-label={title} onClose={onClose} onClick={(event) => event.target === dialog.current && onClose()}>
      <header><b>{title}</b><Button icon="x" label="Close" kind="bare" small hideLabel onClick={onClose} keys="Esc" /></header>
      <div className="dialogbody">{children}</div>
    </dialog>
  );
}
