/** Talks to the server: JSON in and out, one error type, the CSRF token on every write. */

import { parse } from "./exact";
import { answered } from "./filled";
import type { Me } from "./types";

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly remedy?: string;
  readonly detail: Record<string, unknown>;

  constructor(status: number, detail: Record<string, unknown>) {
    super(String(detail["message"] ?? `the server answered ${status}`));
    this.status = status;
    this.code = String(detail["error"] ?? "internal");
    this.remedy = detail["remedy"] === undefined ? undefined : String(detail["remedy"]);
    this.detail = detail;
  }
}

let csrf = "";

export async function enter(): Promise<Me> {
  const me = await get<Me>("/api/me");
  csrf = me.csrf ?? "";
  return me;
}

export function get<T>(path: string, query: Record<string, string | number | undefined> = {}, signal?: AbortSignal) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value));
  const tail = parameters.toString();
  return request<T>(tail ? `${path}?${tail}` : path, { signal });
}

export function post<T>(path: string, body: unknown = {}, method = "POST") {
  return request<T>(path, {
    method,
    headers: { "Content-Type": "application/json", "X-Canvas-CSRF": csrf },
    body: JSON.stringify(body),
  });
}

export function upload<T>(path: string, bytes: Blob) {
  return request<T>(path, {
    method: "POST",
    headers: { "Content-Type": "application/octet-stream", "X-Canvas-CSRF": csrf },
    body: bytes,
  });
}

/** A download whose bytes the page hands to the browser. */
export async function download(path: string, body: unknown): Promise<{ name: string; data: Blob; losses: number }> {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Canvas-CSRF": csrf },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw await failure(answer);
  const name = /filename="?([^";]+)/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1] ?? "conversation";
  return { name, data: await answer.blob(), losses: Number(answer.headers.get("X-Losses") ?? 0) };
}

async function request<T>(path: string, init: RequestInit): Promise<T> {
  const answer = await fetch(path, { credentials: "same-origin", ...init });
  if (!answer.ok) throw await failure(answer);
  return answer.status === 204 ? (undefined as T) : (answered(path, parse(await answer.text()) as never) as T);
}

async function failure(answer: Response): Promise<ApiError> {
  try {
    const body = (await answer.json()) as { detail?: Record<string, unknown> };
    return new ApiError(answer.status, body.detail ?? {});
  } catch {
    return new ApiError(answer.status, { message: `the server answered ${answer.status} ${answer.statusText}` });
  }
}
