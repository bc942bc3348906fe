/** Nodes at their places, without pan and zoom, in the markup of the flow library. */

import type { ReactNode } from "react";

import type { View } from "./opening";

export function Still({ view, children }: { view: View; children: ReactNode }) {
  return <div className="react-flow__viewport still" style={{ transform: `translate(${view.x}px, ${view.y}px) scale(${view.zoom})` }}>{children}</div>;
}

export function StillNode({ type, position, children }: { type: string; position: { x: number; y: number }; children: ReactNode }) {
  return <div className={`react-flow__node react-flow__node-${type}`} style={{ transform: `translate(${position.x}px, ${position.y}px)` }}>{children}</div>;
}
