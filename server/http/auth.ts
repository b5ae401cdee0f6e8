/** Keys: off by default, compared in constant time. */

import { createHash, timingSafeEqual } from "node:crypto";
import { ApiError } from "../contract/errors.ts";

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
const BASIC_PATHS = "/sdapi/";

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
  if (basic === undefined || !new URL(request.url).pathname.startsWith(BASIC_PATHS)) return key;
  try {
    const [, user, password] = /^([^:]*):?(.*)$/s.exec(atob(basic))!;
    return password || user || undefined;
  } catch {
    return undefined;
  }
}

/**
 * Who sends a request, however its key is written there.
 *
 * @param request with or without a key
 * @returns a digest of the key, so that records tell none; nothing without one
 */
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

/**
 * Checks the key of a request.
 *
 * @param request with or without `Authorization: Bearer <key>`
 * @param apiKeys those that are accepted; every request passes when there is none
 * @throws {ApiError} 401 without a right key
 */
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
