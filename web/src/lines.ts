/** How many lines a text takes in a card, without asking the browser for each: widths by character, words kept whole. */

const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/;
const USUAL = 7; // pixels, where the browser cannot measure

/** What measures text; where there is no other, an element, which takes longer. */
function measuring(): OffscreenCanvasRenderingContext2D | CanvasRenderingContext2D | null {
  const isKnown = typeof OffscreenCanvas === "function";
  return isKnown ? new OffscreenCanvas(1, 1).getContext("2d") : document.createElement("canvas").getContext("2d");
}

/** The widths of ASCII characters in a font, each measured when it first occurs. */
class Widths {
  readonly #known = new Float32Array(128);
  readonly #context = measuring();

  constructor(font: string) {
    if (this.#context !== null) this.#context.font = font;
  }

  of(code: number): number {
    return this.#known[code] || (this.#known[code] = (code >= 32 && this.#context?.measureText(String.fromCharCode(code)).width) || USUAL);
  }
}

const widths = new Map<string, Widths>();

export function linesOf(text: string, width: number, font: string, most: number): number {
  let known = widths.get(font);
  if (known === undefined) widths.set(font, (known = new Widths(font)));
  let lines = 1;
  let line = 0;
  let word = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    const wide = code < 128 ? known.of(code) : code >= 0xd800 || WIDE.test(text.charAt(at)) ? 13 : 7.2;
    if (code >= 0xd800 && code < 0xdc00) at += 1;
    if (code === 32 || code > 0x2e7f) {
      line += word + wide;
      word = 0;
      if (line > width) {
        lines += 1;
        line = wide;
      }
    } else {
      word += wide;
      if (line + word > width) {
        lines += 1;
        if (word > width) word = wide; // a word longer than the line is broken
        line = 0;
      }
    }
    if (lines >= most) return most;
  }
  return lines;
}
