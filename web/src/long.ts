/** Views that read a whole path: of a long one its end comes at once, and the whole when the reader stays. */

import { get } from "./http";
import type { SessionStore } from "./store";

const LONG = 2000; // messages
const STAY = 1000; // ms

type Query = Record<string, string | number | undefined>;

/** Gives `take` the view; of a long path first one of the `last` messages, which says if it is partial. */
export async function inParts<T extends { partial?: boolean }>(store: SessionStore, view: string, query: Query, last: number, signal: AbortSignal, take: (view: T) => void): Promise<void> {
  const path = `/api/sessions/${store.key}/${view}`;
  if (store.session === undefined || store.session.messages > LONG) {
    const end = await get<T>(path, { ...query, last }, signal);
    take(end);
    if (!end.partial) return;
    await new Promise((done) => window.setTimeout(done, STAY));
  }
  take(await get<T>(path, query, signal));
}
