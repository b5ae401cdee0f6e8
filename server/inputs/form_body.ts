/** The texts of a form as a JSON body of the same request would have them. */

import type { z } from "zod";
import { badRequest } from "../contract/errors.ts";
import { fieldNodes, typesOf } from "../contract/scalars.ts";
import { MAX_JSON_TEXT, readJsonText } from "../contract/json_text.ts";
import { JsonTally } from "../contract/json_tally.ts";

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
