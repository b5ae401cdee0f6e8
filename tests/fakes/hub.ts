/** A model hub on this machine, which can misbehave as real networks and hostile servers do. */

import { createHash } from "node:crypto";

/** The content of a file. */
type Content = string | Uint8Array<ArrayBuffer>;

/** Repositories by id: files by path. */
type Repositories = Readonly<Record<string, Readonly<Record<string, Content>>>>;

/** How the fake behaves; all of it may be changed between requests. */
export interface FakeHubBehaviour {
  /** Only requests with this token are answered. */
  token?: string;
  /** Connections that carry files end after so many bytes, as long as there are some left here. */
  cuts?: number[];
  /** Statuses that the next requests for files get. */
  failures?: number[];
  /** Files are sent whole, whatever range is asked for. */
  ignoresRanges?: boolean;
  /** Bytes of a file that are sent in a second, in pieces; all at once by default. */
  pace?: number;
  /** Files by path that are sent instead of the true ones. */
  forged?: Record<string, string>;
  /** Sends files from another origin, as hubs do for large ones. */
  hasCdn?: boolean;
  /** Files on one page of the list. */
  pageSize?: number;
}

/** What was asked of the fake. */
interface SeenRequest {
  readonly path: string;
  readonly range: string | null;
  readonly hasToken: boolean;
}

/** The commit of every repository here. */
export const FAKE_COMMIT = "0123456789abcdef0123456789abcdef01234567";

/** A model hub on this machine that can misbehave. */
export class FakeHub implements AsyncDisposable {
  readonly behaviour: FakeHubBehaviour;
  readonly seen: SeenRequest[] = [];
  readonly #repositories: Repositories;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #cdn: Deno.HttpServer<Deno.NetAddr>;

  constructor(
    repositories: Repositories,
    behaviour: FakeHubBehaviour = {},
  ) {
    this.#repositories = repositories;
    this.behaviour = behaviour;
    const options = {
      port: 0,
      hostname: "127.0.0.1",
      onListen: () => {},
      // Cut connections are what is asked for.
      onError: () => new Response("", { status: 500 }),
    };
    this.#server = Deno.serve(options, (request) => this.#answer(request));
    this.#cdn = Deno.serve(options, (request) => this.#file(request, new URL(request.url)));
  }

  /** Address of the hub, for `HF_ENDPOINT`. */
  get endpoint(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** Paths of files that were asked for. */
  get filesSeen(): string[] {
    return this.seen.filter(({ path }) => path.includes("/resolve/")).map(({ path }) => path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
    await this.#cdn.shutdown();
  }

  #answer(request: Request): Response {
    const url = new URL(request.url);
    const path = decodeURIComponent(url.pathname);
    const api = /^\/api\/models\/([^/]+\/[^/]+)\/(revision|tree)\/(.+)$/.exec(path);
    if (!api) {
      if (!this.behaviour.hasCdn) return this.#file(request, url);
      this.#note(request, url);
      if (!this.#isAllowed(request)) return new Response("", { status: 401 });
      const location = `http://127.0.0.1:${this.#cdn.addr.port}${url.pathname}`;
      return new Response(null, { status: 302, headers: { location } });
    }
    this.#note(request, url);
    if (!this.#isAllowed(request)) return new Response("", { status: 401 });
    const files = this.#repositories[api[1]!];
    if (!files) return new Response("", { status: 404 });
    if (api[2] === "revision") {
      const siblings = Object.keys(files).map((rfilename) => ({ rfilename }));
      return Response.json({ id: api[1], sha: FAKE_COMMIT, siblings });
    }
    const start = Number(url.searchParams.get("cursor") ?? 0);
    const { pageSize = 1000 } = this.behaviour;
    const entries = Object.entries(files).slice(start, start + pageSize);
    const hasMore = start + pageSize < Object.keys(files).length;
    const next = `${this.endpoint}${url.pathname}?recursive=true&cursor=${start + pageSize}`;
    return Response.json(entries.map(([name, content]) => treeEntry(name, content)), {
      headers: hasMore ? { link: `<${next}>; rel="next"` } : {},
    });
  }

  #file(request: Request, url: URL): Response {
    this.#note(request, url);
    const [, id, path] = /^\/([^/]+\/[^/]+)\/resolve\/[^/]+\/(.+)$/.exec(
      decodeURIComponent(url.pathname),
    ) ?? [];
    const content = this.behaviour.forged?.[path ?? ""] ??
      this.#repositories[id ?? ""]?.[path ?? ""];
    if (content === undefined) return new Response("", { status: 404 });
    const isCdn = url.port === String(this.#cdn.addr.port);
    if (!isCdn && !this.#isAllowed(request)) return new Response("", { status: 401 });
    const failure = this.behaviour.failures?.shift();
    if (failure !== undefined) return new Response("", { status: failure });
    const bytes = bytesOf(content);
    const asked = /^bytes=(\d+)-(\d*)$/.exec(request.headers.get("range") ?? "");
    const [, from, last] = this.behaviour.ignoresRanges ? [] : asked ?? [];
    const start = Number(from ?? 0);
    const end = last ? Math.min(Number(last) + 1, bytes.length) : bytes.length;
    const isPart = start > 0 || end < bytes.length;
    const cut = this.behaviour.cuts?.shift();
    const { pace } = this.behaviour;
    const whole = pace ? pacedStream(bytes.slice(start, end), pace) : bytes.slice(start, end);
    return new Response(cut === undefined ? whole : brokenStream(bytes, start, cut), {
      status: isPart ? 206 : 200,
      headers: {
        "content-length": String(end - start),
        "x-repo-commit": FAKE_COMMIT,
        etag: JSON.stringify(hashOf(path!, bytes)),
        ...(isPart ? { "content-range": `bytes ${start}-${end - 1}/${bytes.length}` } : {}),
      },
    });
  }

  #isAllowed(request: Request): boolean {
    const { token } = this.behaviour;
    return token === undefined || request.headers.get("authorization") === `Bearer ${token}`;
  }

  #note(request: Request, url: URL): void {
    this.seen.push({
      path: decodeURIComponent(url.pathname),
      range: request.headers.get("range"),
      hasToken: request.headers.has("authorization"),
    });
  }
}

/** Ends with an error after `count` bytes, as a lost connection does. */
function brokenStream(
  bytes: Uint8Array<ArrayBuffer>,
  start: number,
  count: number,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async start(controller) {
      controller.enqueue(bytes.slice(start, start + count));
      // What was sent must leave before the connection is torn down.
      await new Promise((resolve) => setTimeout(resolve, 20));
      controller.close();
    },
  });
}

function pacedStream(bytes: Uint8Array<ArrayBuffer>, pace: number) {
  const size = Math.max(1, Math.round(pace / 20));
  let sent = 0;
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      if (sent > 0) await new Promise((resolve) => setTimeout(resolve, 50));
      controller.enqueue(bytes.slice(sent, sent += size));
      if (sent >= bytes.length) controller.close();
    },
  });
}

/** Large files (here: weights) are named by SHA-256, others by git's hash. */
function treeEntry(path: string, content: Content) {
  const bytes = bytesOf(content);
  const [size, oid] = [bytes.length, hashOf(path, bytes)];
  const entry = { type: "file", path, size, oid };
  return isLarge(path) ? { ...entry, lfs: { oid, size, pointerSize: 130 } } : entry;
}

function bytesOf(content: Content): Uint8Array<ArrayBuffer> {
  return typeof content === "string" ? new TextEncoder().encode(content) : content;
}

function hashOf(path: string, bytes: Uint8Array): string {
  if (isLarge(path)) return createHash("sha256").update(bytes).digest("hex");
  return createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
}

function isLarge(path: string): boolean {
  return /\.(safetensors|gguf)$/.test(path);
}
