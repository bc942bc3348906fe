/** Markdown with formulas: KaTeX, loaded only where a text has some. */

import rehypeKatex from "rehype-katex";
import remarkMath from "remark-math";

import { Plain } from "./markdown";

const OPTIONS = { trust: false, strict: false, maxSize: 20, maxExpand: 500, throwOnError: false, output: "mathml" };

export default function MathText({ text }: { text: string }) {
  const dollars = text.replace(/\\\[([\s\S]+?)\\\]/g, "\n$$$$$1$$$$\n").replace(/\\\(([\s\S]+?)\\\)/g, "$$$1$$");
  return <Plain text={dollars} plugins={[remarkMath] as never[]} rehype={[[rehypeKatex, OPTIONS]] as never[]} />;
}
