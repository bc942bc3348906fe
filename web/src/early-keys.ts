/** Keys that are pressed when the first cards are drawn and the page does not listen yet: kept, and sent again. */

const pressed: KeyboardEvent[] = [];

function keep(event: KeyboardEvent): void {
  if (!event.ctrlKey && !event.metaKey && !event.altKey) pressed.push(event); // others are the browser's own
}

export function keepKeys(): void {
  window.addEventListener("keydown", keep);
}

/** Called when the page listens. */
export function sendKeptKeys(): void {
  window.removeEventListener("keydown", keep);
  for (const event of pressed.splice(0)) window.dispatchEvent(new KeyboardEvent(event.type, event));
}
