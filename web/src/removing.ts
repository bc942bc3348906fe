/** Deleting a session, with the way back. */

import { post } from "./http";
import { date } from "./format";
import type { Session } from "./types";

/** What was done, in words; `restores` is the key of what can be brought back. */
export type Removed = { text: string; restores?: string };

/** Deletes a session of ours; of an opened file, only closes it. */
export async function removeSession(session: Session): Promise<Removed> {
  const gone = await post<{ undoUntil?: number }>(`/api/sessions/${session.key}`, {}, "DELETE");
  if (gone.undoUntil === undefined) return { text: `Closed “${session.title}”. The file is unchanged.` };
  return { text: `Deleted “${session.title}”. It can be restored until ${date(gone.undoUntil)}.`, restores: session.key };
}

export async function restoreSession(key: string): Promise<void> {
  await post(`/api/sessions/${key}/restore`);
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
