import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

import { licences } from "./licences.ts";

/** Nothing is painted before the entry has run: the first cards come sooner without an empty frame before them. */
const blocking: Plugin = {
  name: "blocking",
  transformIndexHtml: { order: "post", handler: (html) => html.replace('<script type="module"', '<script type="module" blocking="render"') },
};

type Imported = (id: string) => { importers: readonly string[]; isEntry: boolean } | null;

/** Whether the entry imports a module without waiting: all of these are one file, so that the first cards need one. */
function isStatic(id: string, info: Imported, seen = new Set<string>()): boolean {
  if (seen.has(id)) return false;
  seen.add(id);
  const module = info(id);
  return module !== null && (module.isEntry || module.importers.some((one) => isStatic(one, info, seen)));
}

// The build goes into the Python package and is committed there, so that an install needs no Node.
export default defineConfig({
  plugins: [react(), licences("LICENSES.txt"), blocking],
  build: {
    outDir: "../src/interlingua/canvas/assets",
    emptyOutDir: true,
    assetsDir: "assets",
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
    rolldownOptions: { output: { codeSplitting: { groups: [{ debugName: "start", name: (id, chunking) => (isStatic(id, (one) => chunking.getModuleInfo(one)) ? "start" : null) }] } } },
  },
  worker: { format: "es" },
  server: { proxy: { "/api": "http://127.0.0.1:8322", "/blobs": "http://127.0.0.1:8322" } },
});
