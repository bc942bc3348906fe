/** The address as a value that components read. */

import { useSyncExternalStore } from "react";

import { currentRoute, onNavigate, type Route } from "./address";

export * from "./address";

let last = "";
let route: Route = currentRoute();

export function useRoute(): Route {
  return useSyncExternalStore(onNavigate, () => {
    if (window.location.href !== last) {
      last = window.location.href;
      route = currentRoute();
    }
    return route;
  });
}
