/** Small signs that every view shares: role glyphs, chips, figures, losses. */

import { useEffect, useState, type ReactNode } from "react";

import { Icon, isIcon } from "./icons";
import { visible } from "./plain";
import type { Me, Row } from "./types";

const TOOL_ICONS: Record<string, string> = {
  read: "read", edit: "edit", write: "edit", apply_patch: "edit", multiedit: "edit", exec: "exec", bash: "exec",
  shell: "exec", process: "exec", grep: "search", find: "search", glob: "search", ls: "folder", web_search: "globe",
  web_fetch: "globe", webfetch: "globe", websearch: "globe", task: "agent", sessions_spawn: "agent", subagents: "agent",
  image: "image",
};

/** How plugins want the calls of their tools drawn. */
type ToolDisplay = NonNullable<Me["toolViews"]>[string];
let displays: Record<string, ToolDisplay> = {};

export function setToolDisplays(views: Record<string, ToolDisplay>): void {
  displays = views;
}

export function toolDisplay(name: string | undefined): ToolDisplay | undefined {
  return name !== undefined && Object.hasOwn(displays, name) ? displays[name] : undefined;
}

export function toolIcon(name: string | undefined): string {
  const icon = toolDisplay(name)?.icon;
  if (icon !== undefined && isIcon(icon)) return icon;
  return TOOL_ICONS[(name ?? "").toLowerCase()] ?? "exec";
}

export function kindOf({ role, origin }: Pick<Row, "role" | "origin">): "user" | "assistant" | "tool" | "system" {
  if (role === "assistant" || (role === "user" && origin !== "program")) return role; // a person is who wrote it
  return role === "toolResult" ? "tool" : "system";
}

export function Glyph({ row }: { row: Pick<Row, "role" | "call" | "origin"> }) {
  const kind = kindOf(row);
  const icon = kind === "tool" ? toolIcon(row.call?.name) : kind;
  return (
    <span className={`role ${kind}`} aria-hidden="true">
      <Icon name={icon} />
    </span>
  );
}

export function speaker(row: Pick<Row, "role" | "model" | "call" | "origin">): string {
  if (row.role === "user") return row.origin === "program" ? "Program" : "You";
  if (row.role === "assistant") return row.model ?? "Model";
  if (row.role === "toolResult") return row.call?.name ?? "Tool";
  return /^[a-z]+$/.test(row.role) ? row.role.charAt(0).toUpperCase() + row.role.slice(1) : row.role;
}

/** The calls of an answer that says nothing else. */
export function callSummary(row: Row): string {
  return (row.calls ?? []).map((call) => `${call.name} ${call.arg ?? ""}`.trim()).join(", ");
}

const ROLES: Record<string, string> = { user: "User", assistant: "Assistant", toolResult: "Tool result", system: "System", compaction: "Compaction" };

/** A role in a list of choices. */
export function roleName(role: string): string {
  return ROLES[role] ?? role;
}

/** Stands where contents are on their way: grey lines, and words for assistive technology. */
export function Loading({ text = "Loading…" }: { text?: string }) {
  return <div className="skeleton" role="status" aria-label={text}><i /><i /><i /></div>;
}

export function Figures({ children }: { children: (ReactNode | undefined)[] }) {
  return (
    <span className="figs">
      {children.filter((part) => part !== undefined && part !== "").map((part, at) => (
        <span key={at} className="num">{part}</span>
      ))}
    </span>
  );
}

export function LossMarks({ dropped, weakened }: { dropped: number; weakened: number }) {
  if (dropped + weakened === 0) return null;
  return (
    <span className="losses">
      {dropped > 0 && (
        <span className="loss dropped"><Icon name="dropped" />{dropped} dropped</span>
      )}
      {weakened > 0 && (
        <span className="loss weakened"><Icon name="weakened" />{weakened} weakened</span>
      )}
    </span>
  );
}

export function Loss({ severity, children }: { severity: string; children: ReactNode }) {
  return (
    <span className={`loss ${severity}`}>
      <Icon name={severity} />
      {children}
    </span>
  );
}

/** What is being worked on and for how long: nobody knows how much is left. Comes late, so that what is quick does not flash. */
export function Busy({ text }: { text: string }) {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = window.setInterval(() => setSeconds((now) => now + 1), 1000);
    return () => window.clearInterval(timer);
  }, []);
  return <p className="busy dim" role="status"><i className="pulse" /><span>{text}…</span>{seconds > 0 && <span className="num" aria-hidden>{seconds} s</span>}</p>;
}

export function BranchChip({ name, current, live, onClick }: { name: string; current?: boolean; live?: boolean; onClick?: () => void }) {
  return (
    <button type="button" className="chip branch" aria-current={current || undefined} onClick={onClick}>
      <Icon name="branch" />
      <span className="cut">{visible(name)}</span>
      {live && <i className="pulse" />}
    </button>
  );
}

export function Button(props: {
  icon?: string;
  label: string;
  kind?: "go" | "bare" | "stop" | "";
  small?: boolean;
  bare?: boolean;
  pressed?: boolean;
  disabled?: boolean;
  hideLabel?: boolean;
  onClick?: () => void;
  keys?: string;
}) {
  const only = props.hideLabel ? "icon" : "";
  return (
    <button
      type="button"
      className={`btn ${props.kind ?? ""} ${props.small ? "small" : ""} ${only}`}
      aria-label={props.label}
      aria-pressed={props.pressed}
      title={props.keys === undefined ? (props.hideLabel ? props.label : undefined) : `${props.label} (${props.keys})`}
      disabled={props.disabled}
      onClick={props.onClick}
    >
      {props.icon !== undefined && <Icon name={props.icon} />}
      {!props.hideLabel && <span>{props.label}</span>}
    </button>
  );
}
