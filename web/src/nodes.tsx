/** What stands on the canvas: cards, names of branches, frames of sub-agents. */

import type { Node, Viewport } from "@xyflow/react";
import { memo, type ReactNode } from "react";

import { Card, type CardState } from "./card";
import { Frame, type FrameSize } from "./frame";
import { BranchChip } from "./parts";
import type { Chip } from "./scene";
import type { LiveNode, Row } from "./types";

export type CardData = { row: Row; state: CardState; live?: LiveNode; results: readonly (Row | undefined)[]; pick: (id: string) => void };
const CardNode = memo(function CardNode({ data }: { data: CardData }) {
  const { row, state } = data;
  return (
    <div role="button" aria-pressed={state.selected} tabIndex={state.selected ? 0 : -1} data-card={row.id} onClick={() => data.pick(row.id)} onKeyDown={(event) => event.key === "Enter" && data.pick(row.id)}>
      <Card row={row} state={state} live={data.live} results={data.results} />
    </div>
  );
});

type ChipData = { chip: Chip; current: boolean; id: string; pick: (id: string) => void };
const ChipNode = memo(function ChipNode({ data }: { data: ChipData }) {
  return <BranchChip name={data.chip.name} current={data.current} live={data.chip.live} onClick={() => data.pick(data.id)} />;
});

type FrameData = { id: string; size?: FrameSize; onSize: (id: string, size: FrameSize | undefined) => void };
const FrameNode = memo(function FrameNode({ data }: { data: FrameData }) {
  return <Frame {...data} />;
});

export const NODE_TYPES = { card: CardNode, chip: ChipNode, frame: FrameNode };

/** The nodes at their places, without pan and zoom: what is shown until the flow library draws them. */
export function StillNodes({ nodes, view }: { nodes: readonly Node[]; view: Viewport }) {
  return (
    <div className="react-flow__viewport still" style={{ transform: `translate(${view.x}px, ${view.y}px) scale(${view.zoom})` }}>
      {nodes.map((node) => {
        const Drawn = NODE_TYPES[node.type as keyof typeof NODE_TYPES] as (props: { data: unknown }) => ReactNode;
        return <div key={node.id} className={`react-flow__node react-flow__node-${node.type}`} style={{ transform: `translate(${node.position.x}px, ${node.position.y}px)` }}><Drawn data={node.data} /></div>;
      })}
    </div>
  );
}
