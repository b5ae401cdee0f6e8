/** Fetching what a client's address leads to, without lending the client this server's place in the network. */

import type { LookupFunction } from "node:net";
import { lookup } from "node:dns";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { shorten } from "../../generation/texts.ts";
import { isPublicAddress } from "./public_address.ts";
import { Slots } from "../../media/isolated/slots.ts";

export interface RemotePolicy {
  /** Whether addresses of private networks are allowed, this machine's among them. */
  readonly allowPrivate: boolean;
  readonly maxBytes: number;
  /** Kinds of media that are taken, as content types begin. */
  readonly media: readonly ("image" | "video" | "audio")[];
  /** Longest time altogether, in milliseconds; a minute by default. */
  readonly maxMs?: number;
}

/** Why something was not fetched, in a sentence for the client. */
export class RemoteError extends Error {
  override readonly name = "RemoteError";
  /** Whether another attempt may succeed. */
  readonly isTransient: boolean;

  /** @param options `isTransient`: whether another attempt may succeed */
  constructor(message: string, options: ErrorOptions & { isTransient?: boolean } = {}) {
    super(message, options);
    this.isTransient = options.isTransient ?? false;
  }
}

interface RemoteFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The last part of the path, for a name. */
  readonly name: string;
}

/** Longest address, in characters: links that a cloud has signed have some thousands. */
const MAX_URL_LENGTH = 8192;
const MAX_REDIRECTS = 5;
const CONNECT_MS = 5000;
const READ_MS = 10_000;
const ATTEMPTS = 3;
const FIRST_PAUSE_MS = 200;
/** Longest time for a file, with redirects, attempts and waiting for others, in milliseconds. */
const MAX_MS = 60_000;
/** How many are fetched at once: each is held in memory until it is whole. */
const slots = new Slots({ count: 16, perClient: 8, waiting: 512 });

/**
 * Fetches a file. Name resolution is part of the connection, so that the address that was checked is
 * the one that is spoken to; each redirect is checked again.
 *
 * @throws {RemoteError} when it may not or cannot be fetched
 * @throws {BusyError} when too many wait
 */
export async function fetchRemote(
  url: string,
  policy: RemotePolicy,
  signal?: AbortSignal,
): Promise<RemoteFile> {
  const { maxMs = MAX_MS } = policy;
  const late = AbortSignal.timeout(maxMs);
  const either = signal ? AbortSignal.any([signal, late]) : late;
  try {
    return await slots.run(() => fetchAgain(url, policy, either), { signal: either });
  } catch (error) {
    if (!late.aborted || signal?.aborted) throw error;
    throw new RemoteError(`it did not come within ${maxMs / 1000} s`, { cause: error });
  }
}

async function fetchAgain(
  url: string,
  policy: RemotePolicy,
  signal: AbortSignal,
): Promise<RemoteFile> {
  for (let attempt = 1;; attempt++) {
    signal.throwIfAborted();
    try {
      return await follow(url, policy, signal);
    } catch (error) {
      if (!(error instanceof RemoteError && error.isTransient) || attempt === ATTEMPTS) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, FIRST_PAUSE_MS * 2 ** (attempt - 1)));
  }
}

async function follow(
  first: string,
  policy: RemotePolicy,
  signal: AbortSignal,
): Promise<RemoteFile> {
  let url = parseRemoteUrl(first, undefined, "http, https or data");
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const response = await openRequest(url, {
      allowPrivate: policy.allowPrivate,
      headers: { accept: policy.media.map((kind) => `${kind}/*`).join(", ") },
    }, signal);
    const { statusCode = 0, headers } = response;
    if (statusCode >= 300 && statusCode < 400 && headers.location !== undefined) {
      response.destroy();
      url = parseRemoteUrl(headers.location, url);
      continue;
    }
    if (statusCode !== 200) {
      response.destroy();
      throw new RemoteError(`the server answered with status ${statusCode}`, {
        isTransient: statusCode === 429 || statusCode >= 500,
      });
    }
    const name = decodeURIComponentSafely(url.pathname.split("/").at(-1) ?? "");
    checkType(headers["content-type"], policy);
    return { bytes: await readBody(response, policy.maxBytes), name };
  }
  throw new RemoteError(`it leads through more than ${MAX_REDIRECTS} redirects`);
}

const NOT_PUBLIC = "its address is not public; a server with --allow-private-urls takes such ones";

/** Reads an address that a client names; `advice` has the schemes to use instead of a wrong one. @throws {RemoteError} */
export function parseRemoteUrl(text: string, base?: URL, advice = "http or https"): URL {
  if (text.length > MAX_URL_LENGTH) {
    throw new RemoteError(
      `the URL has ${text.length} characters, and at most ${MAX_URL_LENGTH} are allowed`,
    );
  }
  const url = URL.parse(text, base);
  if (!url) throw new RemoteError(`'${shorten(text)}' is not a URL; use ${advice}`);
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new RemoteError(
      `the scheme '${url.protocol.slice(0, 20)}' is not supported; use ${advice}`,
    );
  }
  if (url.username || url.password) throw new RemoteError("the URL must not hold credentials");
  return url;
}

interface RemoteRequest {
  /** Whether addresses of private networks are allowed, this machine's among them. */
  readonly allowPrivate: boolean;
  /** GET by default. */
  readonly method?: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Names are checked when they are looked up. @throws {RemoteError} for an address written as a number that is not public */
export function checkLiteralAddress({ hostname }: URL): void {
  const host = hostname.replace(/^\[|\]$/g, "");
  if (/^[\d.]+$|:/.test(host) && !isPublicAddress(host)) {
    throw new RemoteError(NOT_PUBLIC);
  }
}

/**
 * Sends a request. Name resolution is part of the connection, so that the address that was checked is the one that is
 * spoken to.
 *
 * @returns the answer, whose body is not read yet; redirects are not followed
 * @throws {RemoteError} when it may not or cannot be sent
 */
export function openRequest(
  url: URL,
  { allowPrivate, method = "GET", headers, body }: RemoteRequest,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (!allowPrivate) checkLiteralAddress(url);
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const request = (url.protocol === "https:" ? requestHttps : requestHttp)({
    protocol: url.protocol,
    hostname: host,
    port: url.port || undefined,
    path: `${url.pathname}${url.search}`,
    method,
    headers: {
      ...headers,
      host: url.host,
      "user-agent": "denoise",
      ...(body === undefined ? {} : { "content-length": String(new Blob([body]).size) }),
    },
    lookup: allowPrivate ? undefined : publicLookup,
    agent: false,
    signal,
  });
  const fail = (message: string, cause?: Error) =>
    request.destroy(new RemoteError(message, { isTransient: true, cause }));
  const connecting = setTimeout(() => fail("the server did not answer in time"), CONNECT_MS);
  request.on("response", (response) => {
    clearTimeout(connecting);
    resolve(response);
  });
  request.on("error", (error: Error) => {
    clearTimeout(connecting);
    if (error instanceof RemoteError || signal.aborted) return reject(error);
    const refusal = error.cause instanceof RemoteError ? error.cause : undefined;
    reject(
      refusal ??
        new RemoteError("the server cannot be reached", { isTransient: true, cause: error }),
    );
  });
  request.end(body);
  return promise;
}

/** Resolves a name and refuses it when any of its addresses is not public. */
const publicLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { all: true }, (error, addresses) => {
    if (error) return callback(error, "", 0);
    if (addresses.length === 0 || !addresses.every(({ address }) => isPublicAddress(address))) {
      return callback(new RemoteError(NOT_PUBLIC), "", 0);
    }
    const [first] = addresses;
    if (options.all) callback(null, addresses);
    else callback(null, first!.address, first!.family);
  });
};

/** Content types under which stores keep files that they know nothing of, and videos in a container for applications. */
const UNTOLD =
  /^(?:|(?:application|binary)\/(?:octet-stream|x-binary|mp4|force-download|download))$/;

/** Pages and answers for programs are not read; of the rest, the bytes decide what it is. */
function checkType(header: string | undefined, { media }: RemotePolicy): void {
  const contentType = (header ?? "").split(";")[0]!.trim().toLowerCase();
  if (UNTOLD.test(contentType) || media.some((kind) => contentType.startsWith(`${kind}/`))) return;
  throw new RemoteError(
    `its content type '${contentType.slice(0, 60)}' is not supported; use ${
      media.map((kind) => `one of ${kind}s`).join(", ")
    }, or application/octet-stream`,
  );
}

async function readBody(
  response: IncomingMessage,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const declared = Number(response.headers["content-length"] ?? 0);
  const tooLong = () => new RemoteError(`it is longer than ${maxBytes} bytes`);
  const chunks: Uint8Array[] = [];
  let length = 0;
  const timer = setTimeout(
    () => response.destroy(new RemoteError("it took too long", { isTransient: true })),
    READ_MS,
  );
  try {
    if (declared > maxBytes) throw tooLong();
    for await (const chunk of response as AsyncIterable<Uint8Array>) {
      length += chunk.length;
      if (length > maxBytes) throw tooLong();
      chunks.push(chunk);
    }
  } catch (error) {
    throw error instanceof RemoteError
      ? error
      : new RemoteError("the connection broke", { isTransient: true, cause: error });
  } finally {
    clearTimeout(timer);
    response.destroy();
  }
  if (declared > 0 && length < declared) {
    throw new RemoteError("the connection broke", { isTransient: true });
  }
  const bytes = new Uint8Array(length);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return bytes;
}

function decodeURIComponentSafely(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
