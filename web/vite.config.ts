import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

import { licences } from "./licences.ts";
import { preload } from "./preload.ts";

// The build goes into the Python package and is committed there, so that an install needs no Node.
export default defineConfig({
  plugins: [react(), licences("LICENSES.txt"), preload("main")],
  build: {
    outDir: "../src/interlingua/canvas/assets",
    emptyOutDir: true,
    assetsDir: "assets",
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
  },
  worker: { format: "es" },
  server: { proxy: { "/api": "http://127.0.0.1:8322", "/blobs": "http://127.0.0.1:8322" } },
});
