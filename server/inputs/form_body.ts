/**
 * The texts of a form as a JSON body of the same request would have them.
 *
 * @module
 */

import type { z } from "zod";
import { fieldNodes, typesOf } from "../contract/scalars.ts";

/** Longest text that is read as JSON, in characters. */
const MAX_JSON_LENGTH = 2 ** 20;

/**
 * Brings the texts of a form into the shape of a body: a field that came several times is a list where the schema has
 * one, and else its last text; objects and lists are read from their JSON; an empty text counts as absent where it
 * stands for anything but text. Numbers and flags stay text, as a body may have them too.
 *
 * @param fields of a form
 * @param schema of the same request as JSON
 * @returns a body
 */
export function formBody(
  fields: Readonly<Record<string, string | string[]>>,
  schema: z.ZodObject,
): Record<string, unknown> {
  const nodes = fieldNodes(schema);
  const entries = Object.entries(fields).flatMap(([name, value]): [string, unknown][] => {
    const types = typesOf(Object.hasOwn(nodes, name) ? nodes[name] : undefined);
    if (Array.isArray(value) && types.has("array")) {
      return [[name, value.map((text) => readText(text, types))]];
    }
    const text = Array.isArray(value) ? value.at(-1)! : value;
    const isAbsent = text === "" && !types.has("string");
    return isAbsent ? [] : [[name, readText(text, types)]];
  });
  return Object.fromEntries(entries);
}

function readText(text: string, types: ReadonlySet<string>): unknown {
  if (!types.has("object") && !types.has("array")) return text;
  // Pictures in base64 are long; no list is, and parsing one would hold up every other request.
  if (text.length > MAX_JSON_LENGTH) return text;
  try {
    const value = JSON.parse(text);
    return typeof value === "object" ? value : text;
  } catch {
    return text;
  }
}
