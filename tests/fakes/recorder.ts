/** Stands between a client and a server, and writes down what they say to each other. */

import { strict as assert } from "node:assert";
import { Buffer } from "node:buffer";

/** One request and its answer, without what changes from run to run. */
interface Exchange {
  /** Method and path, such as `POST /v1/images/generations`. */
  request: string;
  /** Content type of the request, without a form's boundary. */
  contentType?: string;
  /** Body of the request: JSON, or a form's parts. */
  body?: unknown;
  /** The answer's status. */
  status: number;
  /** The answer's content type. */
  answerType: string | null;
  /** The answer's body: JSON, or what kind of bytes. */
  answer: unknown;
}

/** Values that differ from run to run; their names stand for them. */
const VOLATILE: ReadonlySet<string> = new Set([
  ...["created", "created_at", "completed_at", "expires_at", "inference_time_s", "progress"],
  ...["file_path", "file_paths", "peak_memory_mb", "b64_json", "seed", "seeds"],
]);

/** A job that was just made is the one or the other. */
const PENDING: ReadonlySet<unknown> = new Set(["queued", "in_progress"]);

/** Ids as the server makes them. */
const ID = /\b(img|video|req)_[0-9a-f-]{36}/g;

/** A proxy in front of a server. */
export class Recorder implements AsyncDisposable {
  /** All exchanges so far, in order. */
  readonly exchanges: Exchange[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  /** @param target where requests go, without a slash at the end */
  constructor(target: string) {
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      (request) => this.#pass(request, target),
    );
  }

  /** Address where the recorder listens. */
  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** Stops. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }

  async #pass(request: Request, target: string): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    const bytes = await request.bytes();
    const headers = new Headers(request.headers);
    for (const name of ["host", "content-length", "accept-encoding"]) headers.delete(name);
    const response = await fetch(target + pathname + search, {
      method: request.method,
      headers,
      ...(bytes.length > 0 ? { body: bytes } : {}),
    });
    const answer = await response.bytes();
    const contentType = request.headers.get("content-type");
    const answerType = response.headers.get("content-type");
    this.exchanges.push({
      request: `${request.method} ${mask(pathname + search)}`,
      ...(contentType && bytes.length > 0
        ? {
          contentType: contentType.replace(/;.*/, ""),
          body: await readBody(bytes, contentType),
        }
        : {}),
      status: response.status,
      answerType,
      answer: await readBody(answer, answerType ?? ""),
    });
    const sent = new Headers(response.headers);
    sent.delete("content-length");
    return new Response(answer, { status: response.status, headers: sent });
  }
}

/** Compares with what was recorded once; with `DENOISE_RECORD` set, records. */
export function assertRecorded(name: string, exchanges: readonly Exchange[]): void {
  const file = new URL(`../goldens/conversations/${name}.json`, import.meta.url);
  const text = `${JSON.stringify(exchanges, undefined, 1)}\n`;
  if (Deno.env.has("DENOISE_RECORD")) Deno.writeTextFileSync(file, text);
  assert.deepEqual(JSON.parse(text), JSON.parse(Deno.readTextFileSync(file)));
}

async function readBody(bytes: Uint8Array<ArrayBuffer>, type: string): Promise<unknown> {
  if (type.startsWith("application/json")) return masked(JSON.parse(Buffer.from(bytes).toString()));
  if (!type.startsWith("multipart/form-data")) return `bytes of ${type}`;
  const form = await new Response(bytes, { headers: { "content-type": type } }).formData();
  return [...form].map(([name, part]) => [
    name,
    typeof part === "string" ? part : `file ${part.name} of ${part.type}`,
  ]);
}

function masked(value: unknown): unknown {
  if (typeof value === "string") return mask(value);
  if (Array.isArray(value)) return value.map(masked);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      name,
      VOLATILE.has(name) && item !== null
        ? `<${name}>`
        : name === "status" && PENDING.has(item)
        ? "<queued or in_progress>"
        : masked(item),
    ]),
  );
}

function mask(text: string): string {
  return text.replaceAll(ID, "$1_ID");
}
