/** Where the page is: the URL is the selection, so every block has a link. */

export type View = "canvas" | "transcript" | "compare" | "wire";
export type Route = { key?: string; view: View; query: URLSearchParams };

const listeners = new Set<() => void>();
window.addEventListener("popstate", () => listeners.forEach((listener) => listener()));

/** Calls a listener when the address changes; the result ends that. */
export function onNavigate(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

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

export function currentRoute(): Route {
  const { pathname, search } = window.location;
  const match = /^\/s\/([^/]+)(?:\/(canvas|transcript|compare|wire))?/.exec(pathname);
  return { key: match?.[1], view: (match?.[2] as View | undefined) ?? "canvas", query: new URLSearchParams(search) };
}
