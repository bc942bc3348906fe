/** The flow library around the cards in view: pan, zoom, pinch. Loaded after the first cards are drawn. */

import { ReactFlow, type Node, type NodeProps, type ReactFlowInstance, type Viewport } from "@xyflow/react";
import { createContext, memo, useContext, useLayoutEffect, type ComponentType } from "react";

import { NODE_TYPES } from "./nodes";

const Drawn = createContext(() => undefined as void);

/** Reports the first node before it is painted, so that the cards drawn earlier disappear in the same frame. */
function reporting(Content: ComponentType<{ data: never }>) {
  return memo(function Reporting({ data }: NodeProps) {
    useLayoutEffect(useContext(Drawn), []);
    return <Content data={data as never} />;
  });
}

const TYPES = Object.fromEntries(Object.entries(NODE_TYPES).map(([name, content]) => [name, reporting(content as never)]));
const NO_EDGES: never[] = [];
const NOTHING = () => undefined;

export type FlowProps = { nodes: Node[]; view: Viewport; minZoom: number; onView: (view: Viewport) => void; onReady: (flow: ReactFlowInstance) => void; onDrawn: () => void };

export default function Flow({ nodes, view, minZoom, onView, onReady, onDrawn }: FlowProps) {
  return (
    <Drawn.Provider value={onDrawn}>
      <ReactFlow
        nodes={nodes}
        edges={NO_EDGES}
        nodeTypes={TYPES}
        viewport={view}
        onViewportChange={onView}
        onInit={onReady}
        minZoom={minZoom}
        maxZoom={2}
        zoomOnDoubleClick={false}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        elementsSelectable={false}
        // Without a listener of its own the flow library lets no pointer through to a card that cannot be dragged.
        onNodeClick={NOTHING}
        disableKeyboardA11y
        panOnScroll
        proOptions={{ hideAttribution: true }}
      />
    </Drawn.Provider>
  );
}
