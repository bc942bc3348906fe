/** Markdown with an allow-list: HTML as the text that it is, no remote images, links that say where they lead. Math and highlighting load on demand. */

import { lazy, Suspense, type ReactNode } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";

import { visible } from "./plain";

const Code = lazy(() => import("./highlight"));
const MathText = lazy(() => import("./math"));

const ALLOWED = [
  "p", "br", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "a", "h1", "h2", "h3", "h4", "h5",
  "h6", "hr", "table", "thead", "tbody", "tr", "th", "td", "img", "input",
];

const COMPONENTS: Components = {
  a: ({ href, children }) =>
    href !== undefined && /^(https?:|mailto:)/i.test(href) ? (
      <a href={href} title={href} target="_blank" rel="noopener noreferrer nofollow">{children}</a>
    ) : (
      <span className="deadlink" title={href}>{children}</span>
    ),
  img: ({ src, alt }) => <span className="remote">image {alt} at <code>{String(src)}</code>, not loaded</span>,
  input: ({ checked }) => <input type="checkbox" checked={checked ?? false} readOnly disabled />,
  pre: ({ children }) => <>{children}</>,
  code: ({ className, children }) => {
    const text = String(children as ReactNode);
    const language = /language-([\w+#-]+)/.exec(className ?? "")?.[1];
    if (language === undefined && !text.includes("\n")) return <code>{visible(text)}</code>;
    const plain = <pre className="codebox">{visible(text.replace(/\n$/, ""))}</pre>;
    return <Suspense fallback={plain}><Code text={text.replace(/\n$/, "")} language={language} /></Suspense>;
  },
};

type Node = { type: string; value?: string; tagName?: string; properties?: Record<string, unknown>; children?: Node[] };
const INLINE = new Set(["paragraph", "heading", "emphasis", "strong", "delete", "link", "linkReference", "tableCell"]);

/** Tags are part of what was said, as in `<context>`: they are shown, line by line, and mean nothing. */
function tagsAsText(node: Node): void {
  if (node.children === undefined) return;
  node.children = node.children.map((child) => {
    if (child.type !== "html") tagsAsText(child);
    else if (INLINE.has(node.type)) return { type: "text", value: child.value };
    else return { type: "paragraph", children: (child.value ?? "").split("\n").flatMap((value, at) => [...(at > 0 ? [{ type: "break" }] : []), { type: "text", value }]) };
    return child;
  });
}

const BLOCKS = /^(p|h[1-6]|ul|ol|blockquote|table)$/;

/** Each block is written in the direction of its own words. */
function directed(node: Node): void {
  if (node.type === "element" && BLOCKS.test(node.tagName ?? "")) node.properties = { ...node.properties, dir: "auto" };
  node.children?.forEach(directed);
}

const MATH = /\$\$[\s\S]+?\$\$|\\\[[\s\S]+?\\\]|\\\([\s\S]+?\\\)/;

export default function Markdown({ text }: { text: string }) {
  if (MATH.test(text)) return <Suspense fallback={<Plain text={text} />}><MathText text={text} /></Suspense>;
  return <Plain text={text} />;
}

export function Plain({ text, plugins = [], rehype = [] }: { text: string; plugins?: never[]; rehype?: never[] }) {
  return (
    <ReactMarkdown
      remarkPlugins={[remarkGfm, ...plugins, () => tagsAsText]}
      rehypePlugins={[...rehype, () => directed]}
      allowedElements={rehype.length > 0 ? undefined : ALLOWED}
      unwrapDisallowed
      skipHtml
      components={COMPONENTS}
    >
      {visible(text)}
    </ReactMarkdown>
  );
}
