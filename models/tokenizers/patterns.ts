/**
 * Patterns of a `tokenizer.json`. They are written for Oniguruma, whose classes are Unicode's.
 *
 * @module
 */

import type { JsonReader } from "./json_fields.ts";

/** What Oniguruma means by an escape where JavaScript means something narrower. */
const CLASSES: Readonly<Record<string, string>> = {
  "\\s": "\\p{White_Space}",
  "\\S": "\\P{White_Space}",
  "\\d": "\\p{Nd}",
  "\\D": "\\P{Nd}",
  "\\h": "[0-9A-Fa-f]",
};

/**
 * The pattern of a field as a global regular expression.
 *
 * @throws {TypeError} if the field is no string, or JavaScript has no such pattern
 */
export function compilePattern(json: JsonReader, key: string): RegExp {
  const source = json.string(key);
  const translated = source.replace(/\\./gsu, (escape) => CLASSES[escape] ?? escape);
  try {
    return new RegExp(translated, "gu");
  } catch {
    throw json.error(key, `is a pattern that cannot be used here: ${source}`);
  }
}

/** Replaces every occurrence of a string by another, neither of them a pattern. */
export function replaceLiteral(from: string, to: string): (text: string) => string {
  return (text) => from === "" ? text : text.replaceAll(from, () => to);
}
