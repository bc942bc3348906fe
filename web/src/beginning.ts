/** The first rows of a session: sent with the page, or read before the page around them is drawn. */

import { parse } from "./exact";
import { tree } from "./filled";
import { get } from "./http";
import type { EntryView, Tree } from "./types";

const FIRST = 60; // rows: as many cards as a large screen shows
const FIRST_PATH = 300; // rows of a path
const PAGE = 1000; // rows: read and filled within a frame
const SCREEN = 12; // messages: as many as are seen at once

export const rowsFrom = (key: string, since: number, limit = PAGE) => get<Tree>(`/api/sessions/${key}/tree`, { since, limit });

/** What is drawn first: to read, the end of the path to a message; else the beginning of the tree. */
export type Beginning = { reading: boolean; at?: string };
export type Begun = { key: string; page: Tree; entries: EntryView[] };

export async function begin(key: string, { reading, at }: Beginning): Promise<Begun> {
  if (!reading) return { key, page: await rowsFrom(key, 0, FIRST), entries: [] };
  try {
    const page = get<Tree>(`/api/sessions/${key}/tree`, { path: FIRST_PATH, to: at });
    const contents = get<{ entries: EntryView[] }>(`/api/sessions/${key}/entries`, { last: SCREEN, to: at });
    return { key, page: await page, entries: (await contents).entries };
  } catch {
    return begin(key, { reading: false }); // a message that is not there: the page opens at the head
  }
}

let early: Begun | undefined;

/** The first rows of a session, if the server sent them with the page. */
export function embedded(key: string): Tree | undefined {
  const sent = document.getElementById("first-rows")?.textContent;
  if (!sent) return undefined;
  const page = tree(parse(sent) as Partial<Tree>);
  early = { key, page, entries: [] };
  return page;
}

/** Reads the first rows of a session before the page around them is drawn. An error is left to the page's own request. */
export async function prefetch(key: string, first: Beginning): Promise<void> {
  early = await begin(key, first).catch(() => undefined);
}

/** What was read of a session before its page was drawn. It is given out once. */
export function takeEarly(key: string): Begun | undefined {
  const found = early?.key === key ? early : undefined;
  early = undefined;
  return found;
}
