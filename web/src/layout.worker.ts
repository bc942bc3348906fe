/** Layout of a large tree, beside the page. */

import { layout, type Sized } from "./layout";

self.onmessage = (event: MessageEvent<{ job: number; nodes: Sized[] }>) => {
  self.postMessage({ job: event.data.job, placed: [...layout(event.data.nodes).values()] });
};
