/** Views that read a whole path: of a long one its end comes at once, and the whole when the reader stays. */

import { get } from "./http";

const LONG = 2000; // messages
const STAY = 1000; // ms

type Query = Record<string, string | number | undefined>;

/** Gives `take` the view; of a path of many messages first one of the `last` of them, which says that it is partial. */
export async function inParts<T extends { partial?: boolean }>(path: string, query: Query, messages: number, last: number, signal: AbortSignal, take: (view: T) => void): Promise<void> {
  if (messages > LONG) {
    const end = await get<T>(path, { ...query, last }, signal);
    take(end);
    if (!end.partial) return;
    await new Promise((done) => window.setTimeout(done, STAY));
  }
  take(await get<T>(path, query, signal));
}
