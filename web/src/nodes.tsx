/** What stands on the canvas: cards, names of branches, frames of sub-agents. */

import type { Node, Viewport } from "@xyflow/react";
import { memo, type ReactNode } from "react";

import { CardNode } from "./card";
import { Frame, type FrameProps } from "./frame";
import { BranchChip } from "./parts";
import type { Chip } from "./scene";
import { Still, StillNode } from "./still";

type ChipData = { chip: Chip; current: boolean; id: string; pick: (id: string) => void };
const ChipNode = memo(function ChipNode({ data }: { data: ChipData }) {
  return <BranchChip name={data.chip.name} current={data.current} live={data.chip.live} onClick={() => data.pick(data.id)} />;
});

const FrameNode = memo(function FrameNode({ data }: { data: FrameProps }) {
  return <Frame {...data} />;
});

export const NODE_TYPES = { card: memo(CardNode), chip: ChipNode, frame: FrameNode };

/** The nodes at their places, without pan and zoom: what is shown until the flow library draws them. */
export function StillNodes({ nodes, view }: { nodes: readonly Node[]; view: Viewport }) {
  return (
    <Still view={view}>
      {nodes.map((node) => {
        const Drawn = NODE_TYPES[node.type as keyof typeof NODE_TYPES] as (props: { data: unknown }) => ReactNode;
        return <StillNode key={node.id} type={node.type!} position={node.position}><Drawn data={node.data} /></StillNode>;
      })}
    </Still>
  );
}
