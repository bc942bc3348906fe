/** Figures for people: one way to write time, tokens, cost. Unknown is written as such, never as zero. */

export function cost(dollars: number | undefined): string {
  if (dollars === undefined) return "cost unknown";
  if (dollars === 0) return "$0";
  return dollars < 0.01 ? `$${dollars.toFixed(4)}` : `$${dollars.toFixed(2)}`;
}

/** A sum of costs, of which some may be unknown. */
export function spent(dollars: number, unknown: number): string {
  return unknown > 0 ? `≥ ${cost(dollars)}` : cost(dollars);
}

export function tokens(count: number | undefined): string {
  if (count === undefined) return "unknown";
  if (count < 1000) return String(count);
  if (count < 99_950) return `${(count / 1000).toFixed(1)}k`;
  return count < 999_500 ? `${Math.round(count / 1000)}k` : `${Number((count / 1_000_000).toPrecision(3))}M`;
}

export function duration(ms: number | undefined): string | undefined {
  if (ms === undefined || ms < 0) return undefined;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} m ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} m`;
}

export function clock(at: number | undefined): string | undefined {
  if (at === undefined) return undefined;
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
}

export function day(at: number): string {
  const date = new Date(at);
  const today = new Date();
  const days = Math.round((new Date(today.toDateString()).getTime() - new Date(date.toDateString()).getTime()) / 86_400_000);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  return date.toLocaleDateString([], { weekday: "long", day: "numeric", month: "long", year: today.getFullYear() === date.getFullYear() ? undefined : "numeric" });
}

/** A day in a list: short, with the year only when it is another one. */
export function date(at: number): string {
  const date = new Date(at);
  return date.toLocaleDateString([], { day: "numeric", month: "short", year: new Date().getFullYear() === date.getFullYear() ? undefined : "numeric" });
}

/** The time until something is removed. */
export function remaining(ms: number): string {
  const hours = Math.round(ms / 3_600_000);
  if (ms <= 0) return "removed soon";
  if (hours < 1) return "less than an hour left";
  return `${hours < 48 ? plural(hours, "hour") : plural(Math.round(hours / 24), "day")} left`;
}

export function bytes(count: number): string {
  if (count < 1024) return `${count} B`;
  if (count < 1024 ** 2) return `${(count / 1024).toFixed(0)} kB`;
  return count < 1024 ** 3 ? `${(count / 1024 ** 2).toFixed(1)} MB` : `${(count / 1024 ** 3).toFixed(1)} GB`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString()} ${count === 1 ? one : many}`;
}
