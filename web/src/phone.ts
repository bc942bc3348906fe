/** Whether the page is as narrow as a phone: one column, no side panel. */

import { useSyncExternalStore } from "react";

const NARROW = window.matchMedia("(max-width: 760px)");

export function usePhone(): boolean {
  return useSyncExternalStore(
    (listener) => {
      NARROW.addEventListener("change", listener);
      return () => NARROW.removeEventListener("change", listener);
    },
    () => NARROW.matches,
  );
}
