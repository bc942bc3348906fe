import { readFileSync } from "node:fs";

import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

import { licences } from "./licences.ts";

/** Nothing is painted before the entry has run: the first cards come sooner without an empty frame before them. */
const blocking: Plugin = {
  name: "blocking",
  transformIndexHtml: { order: "post", handler: (html) => html.replace('<script type="module"', '<script type="module" blocking="render"') },
};

/** React's factory of elements as a module of its own: as CommonJS it needs a further file before the first cards. */
const elements: Plugin = {
  name: "elements",
  enforce: "pre",
  load: (id) => {
    if (!/\/react\/jsx-runtime\.js$/.test(id)) return undefined;
    const source = readFileSync(new URL("./node_modules/react/cjs/react-jsx-runtime.production.js", import.meta.url), "utf8");
    return `const exports = {};\n${source}\nexport const { Fragment, jsx, jsxs } = exports;`;
  },
};

// The build goes into the Python package and is committed there, so that an install needs no Node.
export default defineConfig({
  plugins: [elements, react(), licences("LICENSES.txt"), blocking],
  build: {
    outDir: "../src/interlingua/canvas/assets",
    emptyOutDir: true,
    assetsDir: "assets",
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
    // What the entry imports without waiting is one file: the first cards need no other.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "start", tags: ["$initial"] }] } } },
  },
  worker: { format: "es" },
  server: { proxy: { "/api": "http://127.0.0.1:8322", "/blobs": "http://127.0.0.1:8322" } },
});
