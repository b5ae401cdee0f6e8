/**
 * Which pages may drive a server: any page that a user of this machine opens can send it requests,
 * and by DNS rebinding under a name of its own.
 *
 * Source: Fetch Metadata (W3C), `Origin` of RFC 6454, `Host` of RFC 9112, section 3.2.
 */

import { ApiError, badRequest } from "../contract/errors.ts";

/** What pages and names are let in. */
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

/**
 * Whether a text names an origin that a server can be told to let in.
 *
 * @param text as a flag or the header `Origin` has it
 * @returns false for `null`, which stands for any page without an origin of its own
 */
export function isOrigin(text: string): boolean {
  return /^[a-z][a-z\d+.-]*:\/\/[^\s/]+\/?$/i.test(text);
}

/**
 * What `Access-Control-Allow-Origin` says to a page: those of this machine may call, and those that
 * the server was told of.
 *
 * @param origin of the page
 * @param allowed origins, or `*`
 * @returns the header; null for none
 */
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
