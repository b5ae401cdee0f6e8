/**
 * A client of a server of denoise, by `fetch` alone: for browsers, Node, Bun and Deno.
 *
 * ```ts
 * import { Client } from "denoise/client";
 *
 * const client = new Client();
 * for await (const event of client.image({ prompt: "a red heart", partial_images: 2 })) {
 *   if (event.type === "progress") console.log(event.fraction);
 *   if (event.type === "completed") {
 *     for (const output of event.job.outputs!) console.log((await client.download(output)).size);
 *   }
 * }
 * ```
 *
 * @module
 */

import { readEvents, type ServerEvent } from "./events.ts";
import { type Fields, requestOf } from "./request.ts";
import type {
  CatalogueModel,
  GenerationEvent,
  GenerationRequest,
  Job,
  JobOutput,
  Pull,
  ServedModel,
} from "./types.ts";

export type { ServerEvent } from "./events.ts";
export type {
  CatalogueModel,
  CutPrompt,
  GenerationEvent,
  GenerationRequest,
  Job,
  JobOutput,
  JobStatus,
  Pull,
  ServedModel,
} from "./types.ts";

/** Where a server is, and how to reach it. */
export interface ClientOptions {
  /** Address of the server without a slash at the end; `http://127.0.0.1:30000` by default. */
  url?: string;
  /** A key of the server. */
  apiKey?: string | undefined;
  /** Takes the place of `fetch`. */
  fetch?: typeof fetch;
}

/** How one call goes. */
export interface CallOptions {
  /** Ends the call; a job that it waits for is cancelled. */
  signal?: AbortSignal;
}

/** What a server refused, or a job that failed. */
export class ClientError extends Error {
  /** `ClientError`. */
  override readonly name = "ClientError";
  /** A word for programs, such as `invalid_size`. */
  readonly code: string | undefined;
  /** Status of the answer; undefined for a job that failed. */
  readonly status: number | undefined;

  /** Makes the error of a sentence. */
  constructor(message: string, code?: string, status?: number) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** How often a stream that breaks is opened again without news in between. */
const MAX_BREAKS = 5;
/** Milliseconds between two attempts at a server whose model is loading. */
const LOADING_MS = 1000;
/** Milliseconds until it is opened again, for each break. */
const BREAK_MS = 500;

/** A server of denoise. */
export class Client {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof fetch;

  /** Nothing is sent yet. */
  constructor({ url = "http://127.0.0.1:30000", apiKey, fetch: own }: ClientOptions = {}) {
    this.#url = url.replace(/\/$/, "");
    this.#headers = apiKey ? { authorization: `Bearer ${apiKey}` } : {};
    this.#fetch = own ?? ((...given) => fetch(...given));
  }

  /**
   * Makes images: edits where the request has an `image`, else from text.
   *
   * @param request fields of `POST /v1/images/generations` and `/edits`
   * @returns what happens, until the job has ended; the job goes on if nobody reads any more
   * @throws {ClientError} when the server refuses the request or the job fails
   * @throws {DOMException} named `AbortError` when the signal fires; the job is cancelled
   */
  image(request: GenerationRequest, options?: CallOptions): AsyncGenerator<GenerationEvent> {
    return this.#generate("image", request, options);
  }

  /**
   * Makes videos.
   *
   * @param request fields of `POST /v1/videos`, with `image` for the first frame
   * @returns as {@link Client.image} does
   * @throws as {@link Client.image} does
   */
  video(request: GenerationRequest, options?: CallOptions): AsyncGenerator<GenerationEvent> {
    return this.#generate("video", request, options);
  }

  /**
   * Starts a job and does not wait for it, but for a model that is still loading.
   *
   * @param kind what to make
   * @param request as for {@link Client.image} and {@link Client.video}
   * @returns name of the job, and the answer with its headers
   * @throws {ClientError} when the server refuses the request
   */
  async start(
    kind: "image" | "video",
    request: GenerationRequest,
    { signal }: CallOptions = {},
  ): Promise<{ id: string; response: Response }> {
    const { path, ...init } = await requestOf(kind, request as Fields);
    for (;;) {
      try {
        const response = await this.request(path, { ...init, ...(signal && { signal }) });
        const { id } = await response.clone().json();
        return { id, response };
      } catch (error) {
        if (!(error instanceof ClientError && error.code === "model_loading")) throw error;
        await new Promise((resolve) => setTimeout(resolve, LOADING_MS));
        signal?.throwIfAborted();
      }
    }
  }

  /**
   * Follows a job to its end, also where the connection breaks meanwhile.
   *
   * @param id name of the job
   * @returns what happens
   * @throws as {@link Client.image} does
   */
  async *follow(id: string, { signal }: CallOptions = {}): AsyncGenerator<GenerationEvent> {
    try {
      for (let breaks = 0;; breaks++) {
        try {
          for await (const event of this.events(`/v1/jobs/${id}/events`, signal)) {
            breaks = 0;
            const told = eventOf(event);
            if (told) yield told;
            signal?.throwIfAborted();
            if (event.event === "status" && isEnd(event.data)) break;
          }
        } catch (error) {
          signal?.throwIfAborted();
          if (error instanceof ClientError || breaks >= MAX_BREAKS) throw error;
          await new Promise((resolve) => setTimeout(resolve, BREAK_MS * (breaks + 1)));
        }
        signal?.throwIfAborted();
        const job = await this.job(id);
        if (job.status === "completed") return void (yield { type: "completed", job });
        if (isEnd(job)) {
          const { message, code } = job.error ?? {};
          throw new ClientError(message ?? `Cannot generate: the job was ${job.status}`, code);
        }
        if (breaks >= MAX_BREAKS) {
          throw new ClientError(`Cannot follow the job ${id}: its stream of events ends each time`);
        }
      }
    } catch (error) {
      if (signal?.aborted) await this.cancel(id).catch(() => {});
      throw error;
    }
  }

  /**
   * The file of a result.
   *
   * @param output of a job
   * @returns the file, with its type
   * @throws {ClientError} when it is gone
   */
  async download({ url }: JobOutput, { signal }: CallOptions = {}): Promise<Blob> {
    return await (await this.request(url, signal ? { signal } : {})).blob();
  }

  /** A job. @param id its name @throws {ClientError} when there is none */
  job(id: string): Promise<Job> {
    return this.json(`/v1/jobs/${encodeURIComponent(id)}`);
  }

  /**
   * The jobs, the newest first.
   *
   * @param limit of ended ones; 20 by default
   * @returns how many are at work and wait, and the jobs
   */
  jobs(limit = 20): Promise<{ running: number; waiting: number; data: readonly Job[] }> {
    return this.json(`/v1/jobs?limit=${limit}`);
  }

  /** Stops a job within a step. @param id its name @returns the job @throws {ClientError} when it has ended */
  cancel(id: string): Promise<Job> {
    return this.json(`/v1/jobs/${encodeURIComponent(id)}/cancel`, { method: "POST" });
  }

  /** The models that the server has, its first one first. */
  async models({ signal }: CallOptions = {}): Promise<readonly ServedModel[]> {
    const { data } = await this.json<{ data: ServedModel[] }>(
      "/v1/models",
      signal ? { signal } : {},
    );
    return data;
  }

  /** The models that have names, with what this server would have to fetch of them. */
  async catalogue(): Promise<readonly CatalogueModel[]> {
    return (await this.json<{ data: CatalogueModel[] }>("/v1/catalogue")).data;
  }

  /**
   * Lets the server fetch a model.
   *
   * @param model a name of the catalogue, or a hub id
   * @returns how far that is, until it is done
   * @throws {ClientError} when the server does not let this client, or the pull fails or is stopped
   */
  async *pull(model: string, { signal }: CallOptions = {}): AsyncGenerator<Pull> {
    const { body } = await this.request("/v1/pulls", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, stream: true }),
      ...(signal && { signal }),
    });
    for await (const { event, data } of body ? readEvents(body) : []) {
      if (event !== "pull") continue;
      const pull: Pull = data;
      yield pull;
      if (pull.status === "failed" || pull.status === "stopped") {
        const why = pull.error?.message ?? `Cannot pull ${model}: it was stopped`;
        throw new ClientError(why, pull.error?.code);
      }
    }
  }

  /** Removes a model that was pulled from the server's machine. @param model its name @throws {ClientError} when the server does not let this client */
  async remove(model: string): Promise<void> {
    await this.json(`/v1/models/${encodeURIComponent(model)}`, { method: "DELETE" });
  }

  /**
   * Asks for a path from the root, or a whole address; the key goes to no other server.
   *
   * @param path such as `/v1/models`
   * @param init as for `fetch`
   * @returns the answer
   * @throws {ClientError} when the server refuses
   * @throws {TypeError} when no server answers
   */
  async request(path: string, init: RequestInit = {}): Promise<Response> {
    const isOwn = path.startsWith("/") || path.startsWith(`${this.#url}/`);
    const address = path.startsWith("/") ? this.#url + path : path;
    const headers = { ...(isOwn ? this.#headers : {}), ...init.headers as Record<string, string> };
    const response = await this.#fetch(address, { ...init, headers }).catch((cause) => {
      if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
      throw new TypeError(
        `Cannot reach ${this.#url}: no server answers; start one with denoise serve, or name another address`,
        { cause },
      );
    });
    if (response.ok) return response;
    if (isOwn && response.status === 401) {
      await response.body?.cancel();
      const asked = this.#headers["authorization"] ? "another key" : "a key";
      throw new ClientError(
        `Cannot use ${this.#url}: it asks for ${asked}; give it as apiKey or --api-key`,
        "invalid_api_key",
        401,
      );
    }
    throw await errorOf(response);
  }

  /** The JSON of an answer. @param path as for {@link Client.request} @param init as for `fetch` @throws as {@link Client.request} does */
  async json<T>(path: string, init?: RequestInit): Promise<T> {
    return await (await this.request(path, init)).json();
  }

  /** The events of a stream. @param path as for {@link Client.request} @param signal ends it @throws as {@link Client.request} does */
  async *events(path: string, signal?: AbortSignal): AsyncGenerator<ServerEvent> {
    const { body } = await this.request(path, signal ? { signal } : {});
    if (body) yield* readEvents(body);
  }

  async *#generate(
    kind: "image" | "video",
    request: GenerationRequest,
    options?: CallOptions,
  ): AsyncGenerator<GenerationEvent> {
    const { id } = await this.start(kind, request, options);
    yield* this.follow(id, options);
  }
}

function isEnd({ status }: Job): boolean {
  return status !== "queued" && status !== "in_progress";
}

function eventOf({ event, data }: ServerEvent): GenerationEvent | undefined {
  switch (event) {
    case "status":
      return data.status === "queued" ? { type: "queued", place: data.place } : undefined;
    case "progress":
      return {
        type: "progress",
        fraction: data.progress / 100,
        stage: data.stage ?? undefined,
        step: data.step ?? 0,
        totalSteps: data.total_steps ?? 0,
        etaSeconds: data.eta_s ?? undefined,
      };
    case "preview": {
      const bytes = Uint8Array.from(atob(data.b64_json), (sign) => sign.charCodeAt(0));
      return { type: "preview", image: new Blob([bytes]) };
    }
    default:
      return undefined;
  }
}

async function errorOf(response: Response): Promise<ClientError> {
  const { status, statusText } = response;
  const text = await response.text();
  try {
    const { error } = JSON.parse(text);
    if (typeof error?.message === "string") {
      return new ClientError(error.message, error.code ?? undefined, status);
    }
  } catch {
    // Not an answer of ours.
  }
  const words = `Cannot go on: the server answered ${status} ${statusText}`.trimEnd();
  return new ClientError(words, undefined, status);
}
