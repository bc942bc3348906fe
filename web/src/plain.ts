/** Texts from conversations, made safe to read: nothing in them hides or reorders what stands beside it. */

const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
// Escape sequences of terminals: colours and cursor (CSI), titles and links (OSC), and the short ones.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

/** Characters that would hide or reorder text are shown as what they are. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (character) => `⟨U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** One line for a card or a list: without terminal colours. */
export function oneLine(text: string): string {
  return text.search(HIDDEN) < 0 ? text : visible(text.replace(ESCAPES, ""));
}

/** The beginning of a line, with a sign where more follows. */
export function beginning(line: string, most: number): string {
  return line.length <= most ? line : `${line.slice(0, most - 1).trimEnd()}…`;
}

/** The beginning of a message as a card shows it: Markdown's marks left out, its words kept. */
export function firstWords(text: string): string {
  return oneLine(text)
    .replace(/```[\w+#-]*/g, "")
    .replace(/(\*\*|__|`)(?=\S)(.*?\S)\1/g, "$2")
    .replace(/(^|\s)[*_](?=\S)([^*_]*\S)[*_](?=\W|$)/g, "$1$2")
    .replace(/(^|\s)#{1,6}\s+/g, "$1")
    .replace(/\s+/g, " ")
    .trim();
}
