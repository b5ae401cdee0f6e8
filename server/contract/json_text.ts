/** Texts of a request that hold JSON themselves. */

import { badRequest } from "./errors.ts";
import { JsonTally } from "./json_tally.ts";

/** Longest text that is read as JSON, in characters: parsing a longer one would hold up every other request. */
export const MAX_JSON_TEXT: number = 2 ** 20;

/**
 * Reads a text as JSON.
 *
 * @param tally that other texts of the request were added to
 * @returns any JSON value; undefined for what is no JSON
 * @throws {ApiError} 400 where it is too long, or holds too much together with the other texts
 */
export function readJsonText(
  text: string,
  name: string,
  tally: JsonTally = new JsonTally(),
): unknown {
  const excess = text.length > MAX_JSON_TEXT
    ? `it has more than ${MAX_JSON_TEXT} characters`
    : tally.add(new TextEncoder().encode(text));
  tally.next();
  if (excess !== undefined) {
    throw badRequest(`Cannot read field '${name}' as JSON: ${excess}`, name, "invalid_json");
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
