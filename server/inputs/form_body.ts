/** The texts of a form, urlencoded or not, as a JSON body of the same request would have them. */

import type { z } from "zod";
import { badRequest, formTooLarge } from "../contract/errors.ts";
import { fieldNodes, typesOf } from "../contract/validate.ts";
import { JsonTally, MAX_JSON_TEXT, readJsonText } from "../contract/json.ts";
import { type BodyShare, hearOut, readPaced } from "../http/body.ts";

/**
 * Brings the texts of a form into the shape of a body: a field that came several times is a list where the schema has
 * one, and else one text; objects and lists are read from their JSON; an empty text counts as absent where it
 * stands for anything but text. Numbers and flags stay text, as a body may have them too.
 *
 * @throws {ApiError} 400 where the JSON of all texts together holds too much
 */
export function formBody(
  fields: Readonly<Record<string, string | string[]>>,
  schema: z.ZodObject,
): Record<string, unknown> {
  const nodes = fieldNodes(schema);
  const tally = new JsonTally();
  const entries = Object.entries(fields).flatMap(([name, value]): [string, unknown][] => {
    const types = typesOf(Object.hasOwn(nodes, name) ? nodes[name] : undefined);
    if (Array.isArray(value) && types.has("array")) {
      return [[name, value.map((text) => readText(name, text, types, tally))]];
    }
    const text = Array.isArray(value) ? value.at(-1)! : value;
    if (Array.isArray(value) && Object.hasOwn(nodes, name) && new Set(value).size > 1) {
      throw badRequest(
        `Cannot use ${value.length} values of '${name}': the form may have one`,
        name,
      );
    }
    const isAbsent = text === "" && !types.has("string");
    return isAbsent ? [] : [[name, readText(name, text, types, tally)]];
  });
  return Object.fromEntries(entries);
}

function readText(
  name: string,
  text: string,
  types: ReadonlySet<string>,
  tally: JsonTally,
): unknown {
  if (!types.has("object") && !types.has("array")) return text;
  // Images in base64 are long; no list is.
  if (text.length > MAX_JSON_TEXT) return text;
  const value = readJsonText(text, name, tally);
  return typeof value === "object" ? value : text;
}

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
