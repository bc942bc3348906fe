/** What is stored, as a reader sees it: a heading per message, a row per block, and a row for every other value that is lost. */

import type { WireLine, WireLoss } from "./types";

export type Stored =
  | { head: string; path: string; entry?: string }
  | { path: string; kind: string; text: string; mono?: boolean; losses: WireLoss[] };

const TELLING = /^"(text|thinking|name|title|mimeType|url|value)": (.*?),?$/;

export function summary(lines: readonly WireLine[], losses: readonly WireLoss[]): Stored[] {
  const numbered = new Map(losses.map((loss) => [loss.n, loss]));
  const found: Stored[] = [];
  let group = "";
  let block = "";
  let pending: WireLoss[] = []; // of a content as a whole: they stand at its first block
  const heading = (path: string, head: string, entry?: string) => {
    if (group !== path) found.push({ head, path, entry });
    group = path;
  };
  for (const line of lines) {
    const lost = (line.loss ?? []).flatMap((n) => numbered.get(n) ?? []);
    const message = /^\$\.messages\[\d+\]/.exec(line.path)?.[0];
    const inside = /^\$(?:\.messages\[\d+\])?\.content\[\d+\]/.exec(line.path)?.[0];
    if (/^[}\]]/.test(line.text)) continue; // where a value ends, nothing new begins
    if (message !== undefined) heading(message, "Message", line.entry);
    else if (line.path === "$.system") heading("$.system", "System");
    else if (/^\$\.(tools|options)\b/.test(line.path)) heading(line.path.slice(0, line.path.startsWith("$.tools") ? 7 : 9), line.path.startsWith("$.tools") ? "Tools" : "Options");
    const last = found.at(-1);
    if (inside !== undefined && block !== inside) {
      block = inside;
      found.push({ path: inside, kind: "block", text: "", losses: [...pending, ...lost] });
      pending = [];
    } else if (inside !== undefined && last !== undefined && "kind" in last) {
      const kind = /^"type": "(.*?)"/.exec(line.text)?.[1];
      const [, key, value] = TELLING.exec(line.text) ?? [];
      if (kind !== undefined && line.path === `${inside}.type`) last.kind = kind;
      else if (last.kind === "toolCall" && (key === "name" || line.path.startsWith(`${inside}.arguments.`))) {
        last.text = `${last.text} ${plain(value ?? line.text.replace(/^"(?:[^"\\]|\\.)*": |,$/g, ""))}`.trim();
        last.mono = true;
      } else if (value !== undefined && (last.text === "" || key === "text")) last.text = plain(value);
      last.losses.push(...lost.filter((loss) => !last.losses.includes(loss)));
    } else if (line.path === "$.system" || /\.content$/.test(line.path)) {
      const value = line.text.replace(/^"(?:[^"\\]|\\.)*": |,$/g, "");
      if (/^\[$/.test(value)) pending = lost;
      else found.push({ path: line.path, kind: "text", text: plain(value), losses: lost });
    } else if (lost.length > 0 || /^\$\.options\.[^.[]+$/.test(line.path)) {
      found.push({ path: line.path, kind: line.path.split(".").at(-1)!, text: plain(line.text.replace(/^"(?:[^"\\]|\\.)*": |,$/g, "")), losses: lost });
    }
  }
  return found;
}

/** A JSON value in one line as text. */
function plain(value: string): string {
  try {
    const read: unknown = JSON.parse(value.replace(/…"$/, '…"'));
    return typeof read === "string" ? read.replace(/\s+/g, " ") : String(value);
  } catch {
    return value.replace(/^"|"$/g, "");
  }
}
