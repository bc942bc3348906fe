/** The icons, drawn for this page: one stroke, 16 by 16. */

const BOX: Record<string, string> = { mark: "0 0 24 24" };
/** A path, or another shape with its attributes. */
type Shape = string | readonly [Tag: "path" | "circle" | "rect", attributes: React.SVGAttributes<SVGElement>];

const ICONS: Record<string, readonly Shape[]> = {
  agent: [["circle", { cx: "8", cy: "8", r: "5.5" }], ["circle", { cx: "8", cy: "8", r: "2", fill: "currentColor", stroke: "none" }]],
  alert: ["M8 2.2 14.3 13H1.7z", "M8 6.4v3", ["circle", { cx: "8", cy: "11.2", r: ".5", fill: "currentColor" }]],
  assistant: [["circle", { cx: "8", cy: "8", r: "2.1", fill: "currentColor", stroke: "none" }]],
  attach: ["m13 7.5-5.3 5.3a3 3 0 0 1-4.3-4.3L8.9 3a2 2 0 0 1 2.9 2.9l-5.3 5.2a1 1 0 0 1-1.4-1.4L9.8 5"],
  branch: [["circle", { cx: "4.5", cy: "3.5", r: "1.75" }], ["circle", { cx: "4.5", cy: "12.5", r: "1.75" }], ["circle", { cx: "11.5", cy: "5.5", r: "1.75" }], "M4.5 5.25v5.5M11.5 7.25c0 2-1.5 2.5-3.5 2.75S4.5 10.5 4.5 10.75"],
  cache: ["m8 2.2 6 3-6 3-6-3z", "m2 8.2 6 3 6-3M2 11l6 3 6-3"],
  canvas: [["rect", { x: "5.5", y: "1.75", width: "5", height: "3.5", rx: "1" }], ["rect", { x: "1.75", y: "10.75", width: "5", height: "3.5", rx: "1" }], ["rect", { x: "9.25", y: "10.75", width: "5", height: "3.5", rx: "1" }], "M8 5.25V8M4.25 10.75V9a1 1 0 0 1 1-1h5.5a1 1 0 0 1 1 1v1.75"],
  check: ["m3 8.5 3.2 3.2L13 4.8"],
  compare: [["rect", { x: "1.75", y: "2.75", width: "5", height: "10.5", rx: "1" }], ["rect", { x: "9.25", y: "2.75", width: "5", height: "10.5", rx: "1" }], ["path", { d: "M8 6.9v.01M8 9.1v.01", strokeWidth: "1.8" }]],
  copy: [["rect", { x: "5.25", y: "5.25", width: "8.5", height: "8.5", rx: "1.25" }], "M10.75 5V3.5a1.25 1.25 0 0 0-1.25-1.25h-6A1.25 1.25 0 0 0 2.25 3.5v6a1.25 1.25 0 0 0 1.25 1.25H5"],
  differs: ["M3.5 6h9M3.5 10h9M10.5 3l-5 10"],
  doctor: ["M1.5 8.5h2.7l1.6-4.5 3 8 1.7-3.5h4"],
  down: ["M3.5 6 8 10.5 12.5 6"],
  drop: ["M8 2v7.5M4.8 6.7 8 9.9l3.2-3.2M2.5 11v1.5A1.25 1.25 0 0 0 3.75 13.75h8.5a1.25 1.25 0 0 0 1.25-1.25V11"],
  dropped: [["rect", { x: "2.5", y: "2.5", width: "11", height: "11", rx: "2", strokeDasharray: "2.6 2.2" }], "m5.5 10.5 5-5"],
  edit: ["M10.8 2.7a1.6 1.6 0 0 1 2.4 2.3L5.5 12.8l-3 .7.7-3z", "m9.5 4.2 2.3 2.3"],
  exec: [["rect", { x: "1.75", y: "2.75", width: "12.5", height: "10.5", rx: "1.5" }], "m4.5 6 2 2-2 2M8.5 10.2h3"],
  export: ["M8 9.9V2.5M4.8 5.5 8 2.3l3.2 3.2M2.5 10v2.5a1.25 1.25 0 0 0 1.25 1.25h8.5a1.25 1.25 0 0 0 1.25-1.25V10"],
  filter: ["M2 4h12M4.5 8h7M6.7 12h2.6"],
  fit: ["M2.5 5.5v-3h3M10.5 2.5h3v3M13.5 10.5v3h-3M5.5 13.5h-3v-3"],
  fold: ["M3 8h10M8 1.5v4M6 4l2 1.7L10 4M8 14.5v-4M6 12l2-1.7 2 1.7"],
  folder: ["M1.75 4.5a1.25 1.25 0 0 1 1.25-1.25h3.2l1.5 1.75H13a1.25 1.25 0 0 1 1.25 1.25v5.25A1.25 1.25 0 0 1 13 12.75H3a1.25 1.25 0 0 1-1.25-1.25z"],
  globe: [["circle", { cx: "8", cy: "8", r: "5.75" }], "M2.25 8h11.5M8 2.25c-4 4-4 7.5 0 11.5 4-4 4-7.5 0-11.5"],
  good: ["M5.5 7.5 8 2.6c1 0 1.7.7 1.7 1.7L9.4 6.4h3.1a1.2 1.2 0 0 1 1.2 1.4l-.8 4.3a1.4 1.4 0 0 1-1.4 1.1h-6z", "M5.5 7.5H2.6v5.7h2.9"],
  home: ["M2.5 7.3 8 2.5l5.5 4.8v5.2a1.25 1.25 0 0 1-1.25 1.25h-8.5A1.25 1.25 0 0 1 2.5 12.5z"],
  image: [["rect", { x: "1.75", y: "2.75", width: "12.5", height: "10.5", rx: "1.5" }], ["circle", { cx: "5.4", cy: "6.2", r: "1.1" }], "m2.2 11.8 3.3-3 2.3 2 3-3.3 3.3 3.5"],
  keys: [["rect", { x: "1.75", y: "4", width: "12.5", height: "8", rx: "1.5" }], "M4.5 6.75h.01M7 6.75h.01M9.5 6.75h.01M12 6.75h.01M5 9.5h6"],
  left: ["M10 3.5 5.5 8l4.5 4.5"],
  link: ["M6.7 9.3 9.3 6.7M7.3 4.7l1.4-1.4a2.8 2.8 0 0 1 4 4l-1.4 1.4M8.7 11.3l-1.4 1.4a2.8 2.8 0 0 1-4-4l1.4-1.4"],
  lock: [["rect", { x: "3.25", y: "7", width: "9.5", height: "6.75", rx: "1.25" }], "M5.25 7V5a2.75 2.75 0 0 1 5.5 0v2"],
  mark: ["M7.2 3.2C4.6 5.2 3.2 8.3 3.2 12s1.4 6.8 4 8.8", "M16.8 3.2c2.6 2 4 5.1 4 8.8s-1.4 6.8-4 8.8", ["circle", { className: "mid", cx: "12", cy: "12", r: "2.9" }]],
  merge: [["circle", { cx: "4.5", cy: "3.5", r: "1.75" }], ["circle", { cx: "11.5", cy: "3.5", r: "1.75" }], ["circle", { cx: "8", cy: "12.5", r: "1.75" }], "M4.5 5.25C4.5 8 8 8 8 10.75M11.5 5.25C11.5 8 8 8 8 10.75"],
  minus: ["M3 8h10"],
  more: [["circle", { cx: "3.5", cy: "8", r: "1.1", fill: "currentColor", stroke: "none" }], ["circle", { cx: "8", cy: "8", r: "1.1", fill: "currentColor", stroke: "none" }], ["circle", { cx: "12.5", cy: "8", r: "1.1", fill: "currentColor", stroke: "none" }]],
  note: ["M2.75 3.5h10.5v7h-6l-3 2.7v-2.7h-1.5z"],
  onlya: ["M13 8H3.5M7 4.5 3.5 8 7 11.5"],
  outline: ["M3 3.5h.01M6 3.5h7.5M5.5 8h.01M8.5 8h5M5.5 12.5h.01M8.5 12.5h5", ["path", { d: "M3 6v6.5", strokeOpacity: ".5" }]],
  panel: [["rect", { x: "1.75", y: "2.75", width: "12.5", height: "10.5", rx: "1.5" }], "M10 2.75v10.5"],
  plus: ["M8 3v10M3 8h10"],
  poor: ["M10.5 8.5 8 13.4c-1 0-1.7-.7-1.7-1.7l.3-2.1H3.5a1.2 1.2 0 0 1-1.2-1.4l.8-4.3a1.4 1.4 0 0 1 1.4-1.1h6z", "M10.5 8.5h2.9V2.8h-2.9"],
  read: ["M9.2 1.75H4.5A1.25 1.25 0 0 0 3.25 3v10a1.25 1.25 0 0 0 1.25 1.25h7A1.25 1.25 0 0 0 12.75 13V5.3z", "M9.2 1.75V5.3h3.55M5.75 8.5h4.5M5.75 11h3"],
  record: [["path", { d: "M3.5 5h9M3.5 8h9M3.5 11h6", strokeWidth: "1.3" }]],
  retry: ["M13 8a5 5 0 1 1-1.6-3.7M13 2.5v2.3h-2.3"],
  right: ["m6 3.5 4.5 4.5L6 12.5"],
  same: ["M3.5 6h9M3.5 10h9"],
  search: [["circle", { cx: "7", cy: "7", r: "4.25" }], "m10.2 10.2 3.3 3.3"],
  send: ["M8 13V3.5M3.8 7.5 8 3.3l4.2 4.2"],
  star: ["m8 2.2 1.7 3.7 4 .4-3 2.7.9 4L8 10.9 4.4 13l.9-4-3-2.7 4-.4z"],
  stop: [["rect", { x: "4", y: "4", width: "8", height: "8", rx: "1.2", fill: "currentColor", stroke: "none" }]],
  sun: [["circle", { cx: "8", cy: "8", r: "2.75" }], "M8 1.5v1.5M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1.1 1.1M11.5 11.5l1.1 1.1M12.6 3.4l-1.1 1.1M4.5 11.5l-1.1 1.1"],
  swap: ["M3 5.5h9.5M10 3l2.5 2.5L10 8M13 10.5H3.5M6 8l-2.5 2.5L6 13"],
  system: ["M3.5 4.5h9M3.5 8h9M3.5 11.5h5"],
  think: [["circle", { cx: "3.5", cy: "8", r: "1", fill: "currentColor", stroke: "none" }], ["circle", { cx: "8", cy: "8", r: "1", fill: "currentColor", stroke: "none" }], ["circle", { cx: "12.5", cy: "8", r: "1", fill: "currentColor", stroke: "none" }]],
  timeline: ["M2 4.5h6M5 8h6M8 11.5h6"],
  transcript: ["M2.5 3.5h11M2.5 6.5h7.5M2.5 9.5h11M2.5 12.5h5.5"],
  trash: ["M2.75 4.25h10.5M6.25 4V2.75h3.5V4M4.25 4.5l.6 8.25a1 1 0 0 0 1 .95h4.3a1 1 0 0 0 1-.95l.6-8.25M6.75 7v4M9.25 7v4"],
  unfold: ["M3 8h10M8 5.5v-4M6 3l2-1.7L10 3M8 10.5v4M6 13l2 1.7 2-1.7"],
  up: ["M3.5 10 8 5.5l4.5 4.5"],
  user: [["circle", { cx: "8", cy: "5.4", r: "2.4" }], "M3.4 13.2c.5-2.6 2.2-3.9 4.6-3.9s4.1 1.3 4.6 3.9"],
  watch: ["M1.5 8C3 5 5.3 3.5 8 3.5S13 5 14.5 8C13 11 10.7 12.5 8 12.5S3 11 1.5 8z", ["circle", { cx: "8", cy: "8", r: "1.9" }]],
  weakened: [["circle", { cx: "8", cy: "8", r: "5.5" }], ["path", { d: "M8 2.5a5.5 5.5 0 0 0 0 11z", fill: "currentColor", stroke: "none" }]],
  wire: ["M5.5 2.5c-1.5 0-2 .7-2 1.8v1.9c0 .9-.5 1.4-1.5 1.8 1 .4 1.5.9 1.5 1.8v1.9c0 1.1.5 1.8 2 1.8M10.5 2.5c1.5 0 2 .7 2 1.8v1.9c0 .9.5 1.4 1.5 1.8-1 .4-1.5.9-1.5 1.8v1.9c0 1.1-.5 1.8-2 1.8", ["circle", { cx: "8", cy: "8", r: ".9", fill: "currentColor", stroke: "none" }]],
  x: ["m4 4 8 8M12 4l-8 8"],
};

export function isIcon(name: string): boolean {
  return Object.hasOwn(ICONS, name);
}

export type IconName = keyof typeof ICONS;

function drawnShapes(name: string) {
  return ICONS[name]?.map((shape, at) => {
    const [Tag, attributes] = typeof shape === "string" ? ["path" as const, { d: shape }] : shape;
    return <Tag key={at} {...attributes} />;
  });
}

export function Icon({ name, className = "" }: { name: string; className?: string }) {
  return (
    <svg className={`i ${className}`} viewBox={BOX[name] ?? "0 0 16 16"} aria-hidden="true">
      {drawnShapes(name)}
    </svg>
  );
}

export function Mark() {
  return (
    <svg className="i mark" viewBox={BOX["mark"]} aria-hidden="true">
      {drawnShapes("mark")}
    </svg>
  );
}
