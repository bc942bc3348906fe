/** How many lines a text takes in a card, without asking the browser for each: widths by character, words kept whole. */

const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/;
const widths = new Map<string, Float32Array>();

function table(font: string): Float32Array {
  const known = widths.get(font);
  if (known !== undefined) return known;
  const made = new Float32Array(128).fill(7);
  const context = document.createElement("canvas").getContext("2d");
  if (context !== null) {
    context.font = font;
    for (let code = 32; code < 127; code += 1) made[code] = context.measureText(String.fromCharCode(code)).width;
  }
  widths.set(font, made);
  return made;
}

export function linesOf(text: string, width: number, font: string, most: number): number {
  const known = table(font);
  let lines = 1;
  let line = 0;
  let word = 0;
  for (const character of text) {
    const code = character.charCodeAt(0);
    const wide = code < 128 ? known[code]! : WIDE.test(character) || code >= 0xd800 ? 13 : 7.2;
    if (character === " " || code > 0x2e7f) {
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
