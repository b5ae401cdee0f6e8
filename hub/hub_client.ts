/** Requests to a model hub, by the HTTP API that huggingface_hub uses: files of a repository, and their bytes. */

import { REDIRECTS } from "../platform/mod.ts";
import { z } from "zod";
import type { HubSettings } from "./hub_settings.ts";

export interface HubFile {
  /** Path within the repository, with forward slashes; checked to stay inside. */
  readonly path: string;
  readonly size: number;
  /** Name of its blob: SHA-256 of large files, the hash that git has for it otherwise. */
  readonly hash: string;
  readonly hashKind: "sha256" | "git-sha1";
}

interface HubRepository {
  readonly commit: string;
  readonly files: readonly HubFile[];
}

/** The hub refuses, or does not have it; trying again does not help. */
export class HubError extends Error {
  override readonly name = "HubError";
}

/** More than any repository of models has. */
const MAX_FILES = 20_000;
/** Largest answer that lists files, in bytes. */
const MAX_JSON_BYTES = 32 * 2 ** 20;
/** A connection that gives nothing for so long is given up, in milliseconds. */
export const STALL_MS = 30_000;
const MAX_REDIRECTS = 5;

const hash = (digits: number) => z.string().regex(new RegExp(`^[0-9a-f]{${digits}}$`));

const revisionSchema = z.object({ sha: hash(40) });
const treeSchema = z.array(z.object({
  type: z.string(),
  path: z.string(),
  oid: z.string(),
  size: z.int().nonnegative(),
  lfs: z.object({ oid: z.string(), size: z.int().nonnegative() }).nullish(),
}));

export class HubClient {
  readonly #settings: HubSettings;

  constructor(settings: HubSettings) {
    this.#settings = settings;
  }

  async list(id: string, revision: string, signal?: AbortSignal): Promise<HubRepository> {
    const api = `${this.#settings.endpoint}/api/models/${id}`;
    const { sha: commit } = await this.#json(
      `${api}/revision/${encodeURIComponent(revision)}`,
      revisionSchema,
      id,
      signal,
    );
    const files: HubFile[] = [];
    let next: string | undefined = `${api}/tree/${commit}?recursive=true`;
    while (next !== undefined) {
      const response = await this.#get(next, id, signal);
      const entries = await readJson(response, treeSchema, id);
      for (const entry of entries) {
        if (entry.type !== "directory") files.push(toFile(entry, id));
      }
      if (files.length > MAX_FILES) {
        throw new HubError(`Cannot fetch ${id}: it lists more than ${MAX_FILES} files`);
      }
      next = nextPage(response, this.#settings.endpoint);
    }
    return { commit, files };
  }

  addressOf(id: string, commit: string, path: string): string {
    const encoded = path.split("/").map(encodeURIComponent).join("/");
    return `${this.#settings.endpoint}/${id}/resolve/${commit}/${encoded}`;
  }

  /** Begins to read a file: the answer is 206 from `start` on, or 200 from the beginning. */
  open(
    id: string,
    commit: string,
    path: string,
    start: number,
    signal?: AbortSignal,
  ): Promise<Response> {
    const headers = start > 0 ? { range: `bytes=${start}-` } : undefined;
    return this.#get(this.addressOf(id, commit, path), id, signal, headers);
  }

  async #json<Schema extends z.ZodType>(
    url: string,
    schema: Schema,
    id: string,
    signal?: AbortSignal,
  ): Promise<z.output<Schema>> {
    return await readJson(await this.#get(url, id, signal), schema, id);
  }

  /** Follows redirects itself: the token is for the hub alone. */
  async #get(
    address: string,
    id: string,
    signal: AbortSignal | undefined,
    headers: Record<string, string> = {},
  ): Promise<Response> {
    const { endpoint, token } = this.#settings;
    let url = new URL(address);
    for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
      const isHub = url.origin === new URL(endpoint).origin;
      const response = await fetch(url, {
        redirect: REDIRECTS,
        headers: {
          // What is compressed on the way cannot be resumed at a byte of the file.
          "accept-encoding": "identity",
          ...headers,
          ...(token && isHub ? { authorization: `Bearer ${token}` } : {}),
        },
        ...(signal ? { signal } : {}),
      });
      const location = response.headers.get("location");
      if (response.status < 300 || response.status >= 400 || location === null) {
        if (response.ok) return response;
        await response.body?.cancel();
        throw refusal(response, id, token !== undefined);
      }
      await response.body?.cancel();
      const next = URL.parse(location, url);
      const isDowngrade = url.protocol === "https:" && next?.protocol !== "https:";
      if (!next || !/^https?:$/.test(next.protocol) || isDowngrade) {
        throw new HubError(
          `Cannot fetch ${id}: the hub leads to ${JSON.stringify(location.slice(0, 200))}`,
        );
      }
      url = next;
    }
    throw new HubError(`Cannot fetch ${id}: the hub redirects more than ${MAX_REDIRECTS} times`);
  }
}

/** The path of a file of a repository, if it stays inside of it wherever it is written. */
function isSafePath(path: string): boolean {
  // deno-lint-ignore no-control-regex
  if (path.length > 500 || /[\\:\x00-\x1f]/.test(path)) return false;
  return path.split("/").every((part) => part !== "" && part.length <= 200 && !/^\.+$/.test(part));
}

function toFile(
  { path, oid, size, lfs }: z.output<typeof treeSchema>[number],
  id: string,
): HubFile {
  if (!isSafePath(path)) {
    throw new HubError(
      `Cannot fetch ${id}: it lists a file ${
        JSON.stringify(path.slice(0, 200))
      }, which would not stay in its folder`,
    );
  }
  const [name, kind, digits] = lfs
    ? [lfs.oid, "sha256", 64] as const
    : [oid, "git-sha1", 40] as const;
  if (!new RegExp(`^[0-9a-f]{${digits}}$`).test(name)) {
    throw new HubError(`Cannot fetch ${id}: the hub gives no hash of ${path}`);
  }
  return { path, size: lfs?.size ?? size, hash: name, hashKind: kind };
}

function refusal({ status, headers }: Response, id: string, hasToken: boolean): Error {
  if (status === 401 || status === 403) {
    return new HubError(
      `Cannot fetch ${id}: the hub refuses access (${status}); ` +
        (hasToken
          ? "accept the model's terms on its page, or use a token that may read it"
          : "check the name, and set HF_TOKEN where the repository is gated or private"),
    );
  }
  if (status === 404) {
    return new HubError(`Cannot fetch ${id}: the hub has no such repository, revision or file`);
  }
  if (status === 416 || status === 429 || status >= 500) {
    const wait = Number(headers.get("retry-after"));
    return new HubBusyError(
      `Cannot fetch ${id}: the hub answers ${status}`,
      status,
      Number.isFinite(wait) && wait > 0 ? wait * 1000 : undefined,
    );
  }
  return new HubError(`Cannot fetch ${id}: the hub answers ${status}`);
}

/** The hub may answer later. */
export class HubBusyError extends Error {
  override readonly name = "HubBusyError";
  readonly status: number;
  /** When to ask again, in milliseconds, where the hub says it. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, status: number, retryAfterMs: number | undefined) {
    super(message);
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

async function readJson<Schema extends z.ZodType>(
  response: Response,
  schema: Schema,
  id: string,
): Promise<z.output<Schema>> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > MAX_JSON_BYTES) {
      throw new HubError(`Cannot fetch ${id}: its list of files is too long`);
    }
    chunks.push(chunk);
  }
  try {
    return schema.parse(JSON.parse(await new Blob(chunks).text()));
  } catch (cause) {
    throw new HubError(`Cannot fetch ${id}: the answer of the hub is not what it should be`, {
      cause,
    });
  }
}

/** The address of the next page, if it is one of the same hub. */
function nextPage({ headers }: Response, endpoint: string): string | undefined {
  const target = /<([^<>]+)>;\s*rel="next"/.exec(headers.get("link") ?? "")?.[1];
  const url = target === undefined ? null : URL.parse(target, endpoint);
  return url?.origin === new URL(endpoint).origin ? url.href : undefined;
}
