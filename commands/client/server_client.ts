/** A running server, as commands talk to it: over its public API alone. */

import type { JobListItem, ModelCard } from "../../server/contract/answers.ts";

interface ServerFlags {
  /** Address of the server, without a slash at the end. */
  url: string;
  apiKey?: string;
}

export type Job = JobListItem;

export interface JobList {
  readonly running: number;
  readonly waiting: number;
  readonly data: readonly Job[];
}

export class ServerClient {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof fetch;

  /** @param fetcher takes the place of `fetch` in tests */
  constructor({ url, apiKey }: ServerFlags, fetcher: typeof fetch = fetch) {
    this.#url = url;
    this.#headers = apiKey ? { authorization: `Bearer ${apiKey}` } : {};
    this.#fetch = fetcher;
  }

  /** Asks for a path from the root, or a whole address; the key goes to no other server. */
  async request(path: string, init: RequestInit = {}): Promise<Response> {
    const isOwn = path.startsWith("/") || path.startsWith(`${this.#url}/`);
    const address = path.startsWith("/") ? this.#url + path : path;
    const headers = { ...(isOwn ? this.#headers : {}), ...init.headers };
    let response: Response;
    try {
      response = await this.#fetch(address, { ...init, headers });
    } catch (cause) {
      if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
      throw new Error(
        `Cannot reach ${this.#url}: no server answers; start one with denoise serve, or name another with --url`,
        { cause },
      );
    }
    if (response.ok) return response;
    if (isOwn && response.status === 401) {
      await response.body?.cancel();
      const asked = this.#headers["authorization"] ? "another key" : "a key";
      throw new Error(
        `Cannot use ${this.#url}: it asks for ${asked}; give it as --api-key or DENOISE_API_KEY`,
      );
    }
    throw new Error(await errorOf(response));
  }

  async json<T>(path: string, init?: RequestInit): Promise<T> {
    return await (await this.request(path, init)).json();
  }

  async *events(id: string, signal: AbortSignal): AsyncGenerator<ServerEvent> {
    const { body } = await this.request(`/v1/jobs/${id}/events`, { signal });
    if (body) yield* readEvents(body);
  }

  /** Stops a job within a step. */
  cancel(id: string): Promise<Job> {
    return this.json(`/v1/jobs/${id}/cancel`, { method: "POST" });
  }
}

/** Milliseconds that a server of this machine has to answer. */
const NEAR_MS = 500;

/** Whether a server has a model; not where none answers or it asks for another key. */
export async function hasModel(client: ServerClient, name: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(NEAR_MS);
    const { data } = await client.json<{ data: ModelCard[] }>("/v1/models", { signal });
    return data.some(({ id, owned_by }) => id === name && owned_by === "denoise");
  } catch {
    return false;
  }
}

async function errorOf(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text);
    if (typeof error?.message === "string") return error.message;
  } catch {
    // Not an answer of ours.
  }
  return `Cannot go on: the server answered ${response.status} ${response.statusText}`.trimEnd();
}

export interface ServerEvent {
  /** The event's name; `message` where it has none. */
  readonly event: string;
  // deno-lint-ignore no-explicit-any
  readonly data: any;
}

/** The events of a stream, in their order; comments are omitted. */
export async function* readEvents(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
): AsyncGenerator<ServerEvent> {
  let rest = "";
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const blocks = (rest + text).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop()!;
    for (const block of blocks) {
      const lines = block.split("\n");
      const valueOf = (name: string) =>
        lines.filter((line) => line.startsWith(`${name}:`))
          .map((line) => line.slice(name.length + 1).replace(/^ /, "")).join("\n");
      const data = valueOf("data");
      if (data !== "") yield { event: valueOf("event") || "message", data: JSON.parse(data) };
    }
  }
}
