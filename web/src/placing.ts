/** Places of the cards: at once for small trees, in a worker for large ones, where the last places stay until then. */

import { useEffect, useMemo, useRef, useState } from "react";

import { layout, type Placed, type Sized } from "./layout";

const LARGE = 3000;
type Places = { placed: ReadonlyMap<string, Placed>; byY: readonly Placed[] };

function sorted(placed: ReadonlyMap<string, Placed>): Places {
  return { placed, byY: [...placed.values()].sort((a, b) => a.y - b.y) };
}

export function usePlaces(nodes: readonly Sized[]): Places {
  const large = nodes.length > LARGE;
  const small = useMemo(() => (large ? undefined : sorted(layout(nodes))), [nodes, large]);
  const [far, setFar] = useState<Places>();
  const last = useRef<Places>(undefined); // until the worker has answered for the first time
  if (small !== undefined) last.current = small;
  const worker = useRef<Worker>(undefined);
  const job = useRef(0);
  useEffect(() => () => worker.current?.terminate(), []);
  useEffect(() => {
    if (!large) return;
    worker.current ??= new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
    job.current += 1;
    const mine = job.current;
    worker.current.onmessage = (event: MessageEvent<{ job: number; placed: Placed[] }>) => {
      if (event.data.job === mine) setFar(sorted(new Map(event.data.placed.map((one) => [one.id, one]))));
    };
    worker.current.postMessage({ job: mine, nodes });
  }, [nodes, large]);
  return small ?? far ?? (last.current ??= sorted(new Map()));
}
