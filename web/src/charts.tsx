/** Time and cost along the path, drawn by uPlot: what each answer took, and what all of them came to. */

import "uplot/dist/uPlot.min.css";

import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";

import { get } from "./http";
import { cost, duration, tokens } from "./format";
import type { SessionStore } from "./store";
import type { TimelineView } from "./types";

type Series = { label: string; values: (number | null)[]; text: (value: number) => string; bars?: boolean };

export default function Charts({ store, to, onSelect }: { store: SessionStore; to?: string; onSelect: (id: string) => void }) {
  const [view, setView] = useState<TimelineView>();
  useEffect(() => {
    const abort = new AbortController();
    get<TimelineView>(`/api/sessions/${store.key}/timeline`, { to }, abort.signal).then(setView, () => undefined);
    return () => abort.abort();
  }, [store, to]);
  if (view === undefined) return <p className="dim">…</p>;
  const path = store.tree.path(to);
  const points = view.points.filter((one) => one.role === "assistant");
  if (points.length === 0) return <p className="dim">No answer on this path yet.</p>;
  let sum = 0;
  const spent = points.map((one) => (one.cost === undefined ? null : (sum += one.cost)));
  const unknown = spent.filter((one) => one === null).length;
  const at = points.map((one) => store.tree.number(path, one.id));
  const pick = (index: number) => points[index] !== undefined && onSelect(points[index].id);
  return (
    <div className="charts">
      <Chart title={unknown === points.length ? "Cost so far" : `Cost so far${unknown > 0 ? `, without ${unknown} unknown` : ""}: ${cost(sum)}`} at={at} series={{ label: "cost", values: spent, text: cost }} onPick={pick} />
      <Chart title="Time of each answer" at={at} series={{ label: "time", values: points.map((one) => one.ms ?? null), text: (value) => duration(value) ?? "", bars: true }} onPick={pick} />
      <Chart title="Tokens written" at={at} series={{ label: "written", values: points.map((one) => one.output ?? null), text: tokens, bars: true }} onPick={pick} />
    </div>
  );
}

function Chart({ title, at, series, onPick }: { title: string; at: number[]; series: Series; onPick: (index: number) => void }) {
  const host = useRef<HTMLDivElement>(null);
  const [hover, setHover] = useState<number>();
  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const axis = { stroke: colour("--ink-3"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui", gap: 4 };
    const chart = new uPlot(
      {
        width: element.clientWidth,
        height: 96,
        legend: { show: false },
        cursor: { y: false, points: { size: 6 } },
        scales: { x: { time: false, range: (_, low, high) => [low - 0.6, high + 0.6] }, y: { range: (_, __, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [{ ...axis, size: 20, grid: { show: false }, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }, { ...axis, size: 52, values: (_, marks) => marks.map(series.text) }],
        series: [{}, { label: series.label, stroke: colour("--petrol"), fill: series.bars ? colour("--role-assistant") : colour("--petrol-soft"), width: 1.5, spanGaps: true, points: { show: !series.bars, size: 5 }, ...(series.bars ? { stroke: colour("--role-assistant"), paths: uPlot.paths.bars?.({ size: [0.6, 28] }) } : {}) }],
        hooks: { setCursor: [(chart) => setHover(chart.cursor.idx ?? undefined)] },
      },
      [at, series.values],
      element,
    );
    const resized = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: 96 }));
    resized.observe(element);
    return () => { resized.disconnect(); chart.destroy(); };
  }, [at.join(), series.values.join()]); // eslint-disable-line
  if (series.values.every((one) => one === null)) return <figure><figcaption>{title}</figcaption><p className="dim">unknown: nothing was recorded</p></figure>;
  const value = hover === undefined ? undefined : series.values[hover];
  return (
    <figure>
      <figcaption>{title}<span className="dim push num">{hover === undefined ? "" : `message ${at[hover]}: ${value === null || value === undefined ? "unknown" : series.text(value)}`}</span></figcaption>
      <div ref={host} role="img" aria-label={`${title}; ${series.values.map((one, index) => `message ${at[index]}: ${one === null ? "unknown" : series.text(one)}`).slice(0, 40).join(", ")}`} onClick={() => hover !== undefined && onPick(hover)} />
    </figure>
  );
}
