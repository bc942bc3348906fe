import type { Plugin } from "vite";

/** Links a chunk that the entry loads dynamically, with its imports, from the page: the browser fetches them together. */
export function preload(module: string): Plugin {
  return {
    name: "preload",
    enforce: "post",
    transformIndexHtml: {
      order: "post",
      handler(html, { bundle }) {
        const chunks = Object.values(bundle ?? {}).flatMap((one) => (one.type === "chunk" ? [one] : []));
        const found = chunks.find((chunk) => chunk.name === module);
        if (found === undefined) throw new Error(`no chunk ${module}`);
        const missing = [found.fileName, ...found.imports].filter((name) => !html.includes(name));
        return missing.map((name) => ({ tag: "link", attrs: { rel: "modulepreload", crossorigin: true, href: `/${name}` }, injectTo: "head" as const }));
      },
    },
  };
}
