/** Elements as DOM nodes, drawn once and without React's renderer: for components that have no state. */

import type { ReactElement, ReactNode } from "react";
import { Fragment } from "react/jsx-runtime";

type Properties = Record<string, unknown> & { children?: ReactNode };
type Component = (props: Properties) => ReactNode;

const SVG = "http://www.w3.org/2000/svg";
const ATTRIBUTES: Record<string, string> = { className: "class", tabIndex: "tabindex", viewBox: "viewBox" };

export function drawn(node: ReactNode, namespace?: string): Node[] {
  if (node === null || node === undefined || typeof node === "boolean") return [];
  if (Array.isArray(node)) return node.flatMap((one: ReactNode) => drawn(one, namespace));
  if (typeof node !== "object") return [document.createTextNode(String(node))];
  const { type, props } = node as ReactElement<Properties>;
  if (type === Fragment) return drawn(props.children, namespace);
  if (typeof type === "string") return [element(type, props, type === "svg" ? SVG : namespace)];
  const component = typeof type === "function" ? (type as Component) : (type as { type: Component }).type; // of memo()
  return drawn(component(props), namespace);
}

function element(tag: string, { children, ...props }: Properties, namespace: string | undefined): Element {
  const made = namespace === undefined ? document.createElement(tag) : document.createElementNS(namespace, tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null) continue;
    if (typeof value === "function") made.addEventListener(name.slice(2).toLowerCase(), value as EventListener);
    else if (name === "style") applyStyle(made as HTMLElement | SVGElement, value as Record<string, string | number | undefined>);
    else if (value !== false || name.startsWith("aria-")) made.setAttribute(ATTRIBUTES[name] ?? hyphenated(name), value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  made.append(...drawn(children, namespace));
  return made;
}

function applyStyle({ style }: HTMLElement | SVGElement, rules: Record<string, string | number | undefined>): void {
  for (const [name, value] of Object.entries(rules))
    if (value !== undefined) style.setProperty(name.startsWith("--") ? name : hyphenated(name), typeof value === "number" && name !== "WebkitLineClamp" ? `${value}px` : String(value));
}

function hyphenated(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
