/** The width of the panel beside the canvas, as this browser remembers it. */

export const NAME = "panel-width";
export const USUAL = 432;

export function panelWidth(): number {
  return Number(localStorage.getItem(NAME)) || USUAL;
}
