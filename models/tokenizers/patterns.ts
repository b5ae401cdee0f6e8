/** Patterns of a `tokenizer.json`. They are written for Oniguruma, whose classes are Unicode's. */

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

export function compilePattern(json: JsonReader, key: string): RegExp {
  const source = json.string(key);
  try {
    return translatePattern(source);
  } catch {
    throw json.error(key, `is a pattern that cannot be used here: ${excerpt(source)}`);
  }
}

export function translatePattern(source: string): RegExp {
  return new RegExp(source.replace(/\\./gsu, (escape) => CLASSES[escape] ?? escape), "gu");
}
