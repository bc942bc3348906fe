/** Links inside the page, and moving between them by keyboard. */

import { navigate } from "./route";

/** Opens a link without loading the page again, unless the reader asked for a new tab. */
export function follow(event: React.MouseEvent<HTMLAnchorElement>): void {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  navigate(event.currentTarget.getAttribute("href")!);
}

/** Moves the focus between the elements of a list with the arrow keys, or with j and k. */
export function nextLink(event: React.KeyboardEvent | KeyboardEvent, selector: string): void {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  const now = document.activeElement;
  const typing = now instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(now.tagName);
  if (step === undefined || event.metaKey || event.ctrlKey || event.altKey || (typing && (event.key === "j" || event.key === "k" || now.tagName === "SELECT"))) return;
  const all = [...document.querySelectorAll<HTMLElement>(selector)];
  const next = all[Math.max(0, all.indexOf(now as HTMLElement) + step)];
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
}
