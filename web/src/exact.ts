/**
 * JSON in which every digit counts. JavaScript rounds integers beyond 2^53; here they become `JSON.rawJSON`, which is
 * written out again digit by digit. A browser without it shows the rounded number.
 */

type Raw = { rawJSON?: (text: string) => unknown };
const LONG = /\d{16}/;

export function parse(text: string): unknown {
  const { rawJSON } = JSON as Raw;
  if (rawJSON === undefined || !LONG.test(text)) return JSON.parse(text);
  const revive = (_: string, value: unknown, context?: { source?: string }) => {
    const source = context?.source;
    return typeof value === "number" && source !== undefined && !Number.isSafeInteger(value) && /^-?\d{16,}$/.test(source) ? rawJSON(source) : value;
  };
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown);
}
