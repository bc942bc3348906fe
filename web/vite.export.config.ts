import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

// The shell of an HTML export: one file with the same renderer, opened from disk.
export default defineConfig({
  plugins: [react(), viteSingleFile()],
  build: {
    outDir: "../src/interlingua/canvas/assets",
    emptyOutDir: false,
    rollupOptions: { input: "export.html" },
    reportCompressedSize: false,
  },
});
