/**
 * Reading a form without parts, as `curl -d` and pages send them.
 *
 * Source: URL Standard, "application/x-www-form-urlencoded parsing".
 */

import type { BodyShare } from "../http/body_memory.ts";
import { formTooLarge } from "../contract/errors.ts";
import { hearOut, readPaced } from "../http/pace.ts";

/** Longest form, in bytes: prompts of the greatest length, with three bytes escaped for each character. */
const MAX_BYTES = 2 ** 20;

const AND = "&".charCodeAt(0);
const PLUS = "+".charCodeAt(0);
const SPACE = " ".charCodeAt(0);

/**
 * Reads the fields of a form without parts.
 *
 * @returns texts by field; all of them where a field came more than once
 * @throws {ApiError} 413 for a form that is too large, 408 for one whose sender is too slow, 499 when its
 * sender left, 503 when the bodies of all requests take too much memory
 */
export async function readUrlencoded(
  request: Request,
  maxFields: number,
  share?: BodyShare,
): Promise<Record<string, string | string[]>> {
  const bytes = await readBytes(request, maxFields, share);
  // As texts these signs would be replaced one by one.
  for (let at = 0; at < bytes.length; at++) if (bytes[at] === PLUS) bytes[at] = SPACE;
  const fields = new Map<string, string | string[]>();
  for (const [name, value] of new URLSearchParams(new TextDecoder().decode(bytes))) {
    const before = fields.get(name);
    fields.set(name, before === undefined ? value : [before, value].flat());
  }
  return Object.fromEntries(fields);
}

async function readBytes(
  request: Request,
  maxFields: number,
  share: BodyShare | undefined,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  const coming = request.body ? readPaced(request.body) : undefined;
  let length = 0;
  let fields = 1;
  try {
    for (;;) {
      const { done, value: chunk } = await coming?.next() ?? { done: true };
      if (done || !chunk) break;
      length += chunk.length;
      if (length > MAX_BYTES) throw formTooLarge(`it is longer than ${MAX_BYTES} bytes`);
      share?.grow(length);
      for (const byte of chunk) if (byte === AND) fields++;
      if (fields > maxFields) throw formTooLarge(`it has more than ${maxFields} fields`);
      chunks.push(chunk);
    }
  } catch (error) {
    if (coming) await hearOut(coming);
    throw error;
  } finally {
    // Where a piece is still awaited, this comes after it.
    coming?.return().catch(() => {});
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}
