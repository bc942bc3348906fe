/** Writes the licences of what is bundled beside the build: each package that a module of it came from. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Plugin } from "vite";

function packageOf(module: string): string | undefined {
  const at = module.replace(/^\0/, "").lastIndexOf("/node_modules/");
  if (at < 0) return undefined;
  for (let folder = dirname(module.replace(/^\0/, "").replace(/\?.*/, "")); folder.length > at; folder = dirname(folder)) {
    const file = join(folder, "package.json");
    if (existsSync(file) && "version" in JSON.parse(readFileSync(file, "utf8"))) return folder;
  }
  return undefined;
}

export function licences(fileName: string): Plugin {
  const found = new Set<string>();
  return {
    name: "licences",
    generateBundle() {
      for (const module of this.getModuleIds()) {
        const folder = packageOf(module);
        if (folder !== undefined) found.add(folder);
      }
      const texts = [...found].map((folder) => {
        const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { name: string; version: string; license?: string };
        const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
        return `${about.name} ${about.version} (${about.license ?? "licence not named"})\n\n${file === undefined ? "" : readFileSync(join(folder, file), "utf8").trim()}\n`;
      });
      this.emitFile({ type: "asset", fileName, source: `What the canvas page is built with.\n\n${texts.sort().join(`\n${"-".repeat(80)}\n\n`)}` });
    },
  };
}
