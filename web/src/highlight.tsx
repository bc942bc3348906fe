/** Code with colours: highlight.js' tree drawn as React elements, never as HTML text. */

import hljs from "highlight.js/lib/common";
import { useMemo, type ReactNode } from "react";

import { visible } from "./plain";

type Node = string | { scope?: string; language?: string; children: Node[] };

export default function Code({ text, language }: { text: string; language?: string }) {
  const tree = useMemo(() => {
    if (language === undefined || hljs.getLanguage(language) === undefined || text.length > 50_000) return undefined;
    const result = hljs.highlight(text, { language, ignoreIllegals: true });
    return (result._emitter as unknown as { rootNode?: Node; root?: Node }).rootNode;
  }, [text, language]);
  return <pre className="codebox">{tree === undefined ? visible(text) : draw(tree, 0)}</pre>;
}

const CLASSES: Record<string, string> = {
  keyword: "k", built_in: "k", type: "k", literal: "nu", number: "nu", string: "st", regexp: "st", comment: "cm",
  attr: "k", attribute: "k", tag: "k", name: "k", "title.function": "k", meta: "cm",
};

function draw(node: Node, key: number): ReactNode {
  if (typeof node === "string") return visible(node);
  const name = CLASSES[node.scope ?? ""] ?? CLASSES[(node.scope ?? "").split(".")[0]!];
  return <span key={key} className={name}>{node.children.map((child, at) => draw(child, at))}</span>;
}
