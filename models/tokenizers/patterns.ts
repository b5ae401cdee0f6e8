/**
 * Patterns of a `tokenizer.json`. They are written for Oniguruma, whose classes are Unicode's.
 *
 * @module
 */

import { excerpt } from "../../hub/json_file.ts";
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
  if (isExplosive(source)) {
    throw json.error(
      key,
      `is a pattern that could take for ever: it repeats a group that repeats: ${excerpt(source)}`,
    );
  }
  try {
    return translatePattern(source);
  } catch {
    throw json.error(key, `is a pattern that cannot be used here: ${excerpt(source)}`);
  }
}

/**
 * A pattern as a global regular expression.
 *
 * @throws {SyntaxError} if JavaScript has no such pattern
 */
export function translatePattern(source: string): RegExp {
  return new RegExp(source.replace(/\\./gsu, (escape) => CLASSES[escape] ?? escape), "gu");
}

/**
 * Whether a group that is repeated without bound has a repetition or a choice in it: JavaScript may then
 * try exponentially many ways of matching.
 */
function isExplosive(source: string): boolean {
  const plain = source.replace(/\\./gsu, "x").replace(/\[[^\]]*\]/g, "x");
  const open: boolean[] = [];
  for (let i = 0; i < plain.length; i++) {
    const character = plain[i]!;
    if (character === "(") {
      open.push(false);
      if (plain[i + 1] === "?") i++;
    } else if (character === ")") {
      const isRisky = open.pop() ?? false;
      const isRepeated = /^(?:[*+]|\{\d*,\d*\})/.test(plain.slice(i + 1, i + 12));
      if (isRisky && isRepeated) return true;
      if (open.length > 0 && (isRisky || isRepeated)) open[open.length - 1] = true;
    } else if (/[*+?{|]/.test(character) && open.length > 0) {
      open[open.length - 1] = true;
    }
  }
  return false;
}

/** Replaces every occurrence of a string by another, neither of them a pattern. */
export function replaceLiteral(from: string, to: string): (text: string) => string {
  return (text) => from === "" ? text : text.replaceAll(from, () => to);
}
