/** Where the page is: the URL is the selection, so every block has a link. */

import { useSyncExternalStore } from "react";

export type View = "canvas" | "transcript" | "compare" | "wire";
export type Route = { key?: string; view: View; query: URLSearchParams };

const listeners = new Set<() => void>();
window.addEventListener("popstate", () => listeners.forEach((listener) => listener()));

export function navigate(to: string, replace = false): void {
  window.history[replace ? "replaceState" : "pushState"](null, "", to);
  listeners.forEach((listener) => listener());
}

export function setQuery(changes: Record<string, string | undefined>, replace = true): void {
  const url = new URL(window.location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  navigate(url.pathname + url.search, replace);
}

let last = "";
let route: Route = currentRoute();

export function currentRoute(): Route {
  const { pathname, search } = window.location;
  const match = /^\/s\/([^/]+)(?:\/(canvas|transcript|compare|wire))?/.exec(pathname);
  return { key: match?.[1], view: (match?.[2] as View | undefined) ?? "canvas", query: new URLSearchParams(search) };
}

export function useRoute(): Route {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => {
      if (window.location.href !== last) {
        last = window.location.href;
        route = currentRoute();
      }
      return route;
    },
  );
}
