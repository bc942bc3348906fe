/** Deleting a session, with the way back. */

import { post } from "./http";
import { date } from "./format";
import type { Session } from "./types";

/** What was done, in words; `restores` is the deletion that can be undone. */
export type Removed = { text: string; restores?: { key: string; at: number } };

/** Deletes a session of ours; of an opened file, only closes it. */
export async function removeSession(session: Session): Promise<Removed> {
  const gone = await post<{ at?: number; undoUntil?: number }>(`/api/sessions/${session.key}`, {}, "DELETE");
  if (gone.at === undefined || gone.undoUntil === undefined) return { text: `Closed “${session.title}”. The file is unchanged.` };
  return { text: `Deleted “${session.title}”. It can be restored until ${date(gone.undoUntil)}.`, restores: { key: session.key, at: gone.at } };
}

/** Restores a session: the one deleted `at` this time, else the latest with this key. */
export async function restoreSession(key: string, at?: number): Promise<void> {
  await post(`/api/sessions/${key}/restore`, { at });
}

let leaving: Removed | undefined;

/** Kept for the list of sessions, which shows it once. */
export function part(removed: Removed): void {
  leaving = removed;
}

export function parted(): Removed | undefined {
  const shown = leaving;
  leaving = undefined;
  return shown;
}
