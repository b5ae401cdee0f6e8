/** The server's public API, as far as the page needs it. */

import type { VNode } from "./elements.ts";
import { memory } from "./store.ts";
import { plainly, t } from "./texts.ts";

/** What answers the page: the server that sent it, or something in the tab that stands in for one. */
interface Host {
  readonly answer: (request: Request) => Promise<Response>;
  /** Shown at the top instead of the link to the server's API. */
  readonly Corner?: () => VNode;
}

/** Set before `main.ts` is loaded where there is no server. */
export const host: { current: Host } = { current: { answer: (request) => fetch(request) } };

/** Whether elements can fetch results by themselves. */
export function isReachable(): boolean {
  return apiKey() === "" && !host.current.Corner;
}

export function ask(path: string, init: RequestInit = {}): Promise<Response> {
  return host.current.answer(new Request(path, init));
}

/** What the server said no with: a sentence for people. */
export class Refusal extends Error {
  /** HTTP status; 0 where the server could not be reached. */
  readonly status: number;
  /** The field that is wrong, where it is one. */
  readonly param: string | undefined;

  constructor(message: string, status: number, param?: string) {
    super(message);
    this.name = "Refusal";
    this.status = status;
    this.param = param;
  }
}

export function apiKey(): string {
  return memory.read("key", "");
}

/** Calls a route; any status but 2xx is a {@link Refusal}. */
export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (apiKey()) headers.set("authorization", `Bearer ${apiKey()}`);
  let response: Response;
  try {
    response = await ask(path, { ...init, headers });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Refusal(t("noAnswer"), 0);
  }
  if (response.ok) return response;
  throw await refusalOf(response);
}

export async function callJson<T>(path: string, init: RequestInit = {}): Promise<T> {
  return await (await call(path, init)).json();
}

async function refusalOf(response: Response): Promise<Refusal> {
  try {
    const { error } = await response.json();
    return new Refusal(plainly(error.message), response.status, error.param ?? undefined);
  } catch {
    return new Refusal(t("answeredStatus", { status: String(response.status) }), response.status);
  }
}

interface ServerEvent {
  type: string;
  data: unknown;
}

/** Follows server-sent events. `EventSource` cannot send a key. */
export async function* events(path: string, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const { body } = await call(path, { signal });
  let text = "";
  const decoder = new TextDecoder();
  const reader = body!.getReader();
  try {
    // Not every browser can walk a stream with a loop.
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      text += decoder.decode(part.value, { stream: true });
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const lines = text.slice(0, end).split("\n");
        text = text.slice(end + 2);
        const field = (name: string) =>
          lines.filter((line) => line.startsWith(`${name}: `))
            .map((line) => line.slice(name.length + 2)).join("\n");
        const data = field("data");
        if (data) yield { type: field("event"), data: JSON.parse(data) };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
