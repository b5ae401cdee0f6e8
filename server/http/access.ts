/**
 * Who may drive a server: clients with its key, and pages of its origin.
 *
 * Without that check any page that a user of this machine opens can send it requests,
 * and by DNS rebinding under a name of its own.
 *
 * Source: Fetch Metadata (W3C), `Origin` of RFC 6454, `Host` of RFC 9112, section 3.2.
 */

import { ApiError, badRequest } from "../contract/errors.ts";
import { createHash, timingSafeEqual } from "node:crypto";

interface OriginPolicy {
  /** Address that the server is bound to; absent where that is not known. */
  readonly host?: string | undefined;
  /** Names by which the server may be called besides; `*` for any. */
  readonly allowedHosts: readonly string[];
  /** Origins whose pages may call, or `*`; pages of this machine always may. */
  readonly corsOrigins: readonly string[];
}

/** Methods that change nothing. */
const SAFE_METHODS: readonly string[] = ["GET", "HEAD", "OPTIONS"];
const LOCAL_NAMES: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];
const HOST_HEADER = /^(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d{1,5})?$/i;

/**
 * Refuses what a page sends that may not.
 *
 * @param request any
 * @param policy of the server
 * @throws {ApiError} 400 for a `Host` that is none, 403 for one that is not this server's, and for a
 * request that would change something and comes from a page of another origin
 */
export function checkOrigin(request: Request, policy: OriginPolicy): void {
  const { headers, method } = request;
  const host = headers.get("host") ?? new URL(request.url).host;
  // Two of them are joined by a comma.
  const name = HOST_HEADER.exec(host)?.[1]?.toLowerCase();
  if (name === undefined) {
    throw badRequest("Cannot answer: the Host header is not one name", undefined, "invalid_host");
  }
  if (!isOurs(name, policy)) {
    throw refused(
      `this server is not called ${name.slice(0, 100)}; start it with --allowed-host ` +
        `${name.slice(0, 100)} where that is right`,
      "foreign_host",
    );
  }
  if (SAFE_METHODS.includes(method)) return;
  const origin = headers.get("origin");
  const isForeign = origin === null
    ? headers.get("sec-fetch-site") === "cross-site" && !policy.corsOrigins.includes("*")
    : !isSameHost(origin, host) && allowedOrigin(origin, policy.corsOrigins) === null;
  if (isForeign) {
    const page = origin === null ? "a page of another site" : `the page of ${shown(origin)}`;
    const advice = origin === null
      ? "start it with --cors-origin and the page's origin where it may"
      : isOrigin(origin)
      ? `start it with --cors-origin ${shown(origin)} where it may`
      : "no flag lets in pages without an origin of their own, such as files and sandboxed frames; " +
        "serve the page from http://localhost";
    throw refused(`${page} may not change anything here; ${advice}`, "foreign_origin");
  }
}

/** Whether a server can be told to let an origin in: not `null`, which stands for any page without one. */
export function isOrigin(text: string): boolean {
  return /^[a-z][a-z\d+.-]*:\/\/[^\s/]+\/?$/i.test(text);
}

/** `Access-Control-Allow-Origin` for a page: those of this machine may call, and those in `allowed`, or all with `*`. */
export function allowedOrigin(origin: string, allowed: readonly string[]): string | null {
  if (allowed.includes("*")) return "*";
  const isLocal = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/.test(origin);
  // An origin has no slash at its end, but addresses that are copied do.
  const isAllowed = allowed.some((one) => one.replace(/\/$/, "").toLowerCase() === origin);
  return isLocal || isAllowed ? origin : null;
}

/**
 * Whether an address is reached from this machine only.
 *
 * @param host as `--host` takes it
 * @returns true for `localhost` and its addresses
 */
export function isLoopback(host: string): boolean {
  return /^(?:127(?:\.\d{1,3}){3}|localhost|::1|\[::1\])$/i.test(host);
}

/**
 * Whether a request came from a program of this machine, or from a page of it, without a proxy between: for what a server
 * without keys does for its owner alone.
 */
export function maySteward({ headers }: Request, remoteAddress: string | undefined): boolean {
  const isProxied = ["forwarded", "x-forwarded-for", "x-real-ip", "via"].some((name) =>
    headers.has(name)
  );
  const isHere = isLoopback((remoteAddress ?? "").replace(/^::ffff:/i, ""));
  const origin = headers.get("origin");
  return isHere && !isProxied && (origin === null || allowedOrigin(origin, []) !== null);
}

/** Whether a name may lead here: on addresses of a network any, unless some are told. */
function isOurs(name: string, { host, allowedHosts }: OriginPolicy): boolean {
  if (allowedHosts.includes("*")) return true;
  if (allowedHosts.length === 0 && (host === undefined || !isLoopback(host))) return true;
  const known = [...LOCAL_NAMES, ...allowedHosts, ...host === undefined ? [] : [host, `[${host}]`]];
  return known.some((other) => other.toLowerCase() === name);
}

/** Whether a page came from this server itself, over TLS of a proxy perhaps. */
function isSameHost(origin: string, host: string): boolean {
  const url = URL.parse(origin);
  return url !== null && url.host !== "" &&
    url.host === URL.parse(`${url.protocol}//${host}`)?.host;
}

function shown(origin: string): string {
  return origin.slice(0, 100).replace(/[^!-~]/g, "?");
}

function refused(why: string, code: string): ApiError {
  return new ApiError(403, `Cannot answer: ${why}`, { code });
}

/** Paths of probes and of documents that tell nothing of this server: no key is asked for. */
const OPEN_PATHS: readonly string[] = [
  "/liveness",
  "/health",
  "/health_generate",
  "/openapi.json",
  "/docs",
  "/",
];
/** Files of a page that asks for the key itself. */
const OPEN_FOLDER = "/playground/";

/** Clients of these routes know Basic authentication alone. */
const BASIC_PATHS = /^\/(?:sdapi|controlnet)\//;

/**
 * What a request brings as its key.
 *
 * @param request any
 * @returns the key of a Bearer `Authorization`; on the routes of Stable Diffusion WebUI also the password of a Basic one,
 *   or the user where there is no password
 */
function keyOf(request: Request): string | undefined {
  const header = request.headers.get("authorization") ?? "";
  const [, key] = /^Bearer\s+(\S+)\s*$/i.exec(header) ?? [];
  const [, basic] = /^Basic\s+(\S+)\s*$/i.exec(header) ?? [];
  if (basic === undefined || !BASIC_PATHS.test(new URL(request.url).pathname)) return key;
  try {
    const [, user, password] = /^([^:]*):?(.*)$/s.exec(atob(basic))!;
    return password || user || undefined;
  } catch {
    return undefined;
  }
}

/** A digest of a request's key, however it is written there, so that records tell none. */
export function clientOf(request: Request): string | undefined {
  const key = keyOf(request);
  return key === undefined ? undefined : sha256(key).toString("hex").slice(0, 32);
}

/**
 * Checks keys before a server asks for them: an empty one is a variable that was not set, and no client can send it.
 *
 * @param apiKeys of a server
 * @throws {RangeError} for a key that no header can carry; the message does not repeat it
 */
export function checkApiKeys(apiKeys: readonly string[]): void {
  for (const key of apiKeys) {
    if (/^[\x21-\x7e]+$/.test(key)) continue;
    const state = key === "" ? "is empty" : "has spaces, or signs beyond ASCII";
    throw new RangeError(
      `Cannot use an API key that ${state}: give one such as $(openssl rand -hex 32), or none`,
    );
  }
}

/** @throws {ApiError} 401 without one of the keys; every request passes when there is none */
export function checkKey(request: Request, apiKeys: readonly string[]): void {
  if (apiKeys.length === 0) return;
  const { pathname } = new URL(request.url);
  if (OPEN_PATHS.includes(pathname) || pathname.startsWith(OPEN_FOLDER)) return;
  const sent = keyOf(request);
  const headers = { "www-authenticate": 'Bearer realm="denoise"' };
  if (sent === undefined) {
    throw new ApiError(
      401,
      "Cannot answer without a key: send it as 'Authorization: Bearer <key>'",
      { code: "missing_api_key", headers },
    );
  }
  // Every key is compared, and digests of equal length, so that time tells nothing of them.
  const digest = sha256(sent);
  const matches = apiKeys.map((key) => timingSafeEqual(digest, sha256(key)));
  if (!matches.includes(true)) {
    throw new ApiError(401, "Cannot answer: the key is not one of this server's", {
      code: "invalid_api_key",
      headers,
    });
  }
}

function sha256(text: string) {
  return createHash("sha256").update(text).digest();
}
