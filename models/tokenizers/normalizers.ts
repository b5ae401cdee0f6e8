/** The normalizers of a `tokenizer.json`, as Hugging Face's `tokenizers` defines them. */

import { Charsmap } from "./charsmap.ts";
import type { JsonReader } from "./json_fields.ts";
import { compilePattern } from "./patterns.ts";
import { checkTextLength, replaceLiteral, replaceMatches } from "./text_limit.ts";

export type Normalizer = (text: string) => string;

export function readNormalizer(json: JsonReader | undefined): Normalizer {
  if (json === undefined) return (text) => text;
  const normalize = json.read("normalizer", READERS);
  return (text) => {
    const normalized = normalize(text);
    checkTextLength(normalized.length);
    return normalized;
  };
}

const READERS: Readonly<Record<string, (json: JsonReader) => Normalizer>> = {
  Precompiled(json) {
    // Some files have a charsmap of null, which changes nothing.
    if (json.fields["precompiled_charsmap"] === null) return (text) => text;
    const charsmap = readCharsmap(json);
    return (text) => charsmap.normalize(text);
  },
  NFC: () => (text) => text.normalize("NFC"),
  NFD: () => (text) => text.normalize("NFD"),
  NFKC: () => (text) => text.normalize("NFKC"),
  NFKD: () => (text) => text.normalize("NFKD"),
  Lowercase: () => lowercase,
  Strip: (json) => strip(json.boolean("strip_left", true), json.boolean("strip_right", true)),
  StripAccents: () => (text) => text.replace(/\p{Mn}/gu, ""),
  Replace: replace,
  Prepend(json) {
    const prefix = json.string("prepend");
    return (text) => text === "" ? text : prefix + text;
  },
  Nmt: () => nmt,
  Sequence(json) {
    const parts = json.objects("normalizers").map(readNormalizer);
    return (text) => parts.reduce((current, part) => part(current), text);
  },
};

/** Lower-cases every character on its own: a final Σ becomes σ, not ς. */
function lowercase(text: string): string {
  if (!text.includes("Σ")) return text.toLowerCase();
  return text.split("Σ").map((part) => part.toLowerCase()).join("σ");
}

function strip(left: boolean, right: boolean): Normalizer {
  return (text) => {
    let [start, end] = [0, text.length];
    if (left) { while (start < end && isWhitespace(text[start]!)) start++; }
    if (right) { while (end > start && isWhitespace(text[end - 1]!)) end--; }
    return text.slice(start, end);
  };
}

/** Whether a UTF-16 code unit is white space in Unicode's sense; all such characters have one. */
function isWhitespace(unit: string): boolean {
  return /\p{White_Space}/u.test(unit);
}

function replace(json: JsonReader): Normalizer {
  const content = json.string("content");
  const pattern = json.object("pattern");
  if (typeof pattern.fields["String"] === "string") {
    return replaceLiteral(pattern.fields["String"], content);
  }
  return replaceMatches(compilePattern(pattern, "Regex"), content);
}

function nmt(text: string): string {
  let out = "";
  for (const character of text) {
    const code = character.codePointAt(0)!;
    if (isNmtControl(code)) continue;
    out += isNmtSpace(code) ? " " : character;
  }
  return out;
}

function isNmtControl(code: number): boolean {
  return code >= 0x01 && code <= 0x08 || code === 0x0b || code >= 0x0e && code <= 0x1f ||
    code === 0x7f || code === 0x8f || code === 0x9f;
}

function isNmtSpace(code: number): boolean {
  return code === 0x09 || code === 0x0a || code === 0x0c || code === 0x0d || code === 0x1680 ||
    code >= 0x200b && code <= 0x200f || code === 0x2028 || code === 0x2029 || code === 0x2581 ||
    code === 0xfeff || code === 0xfffd;
}

function readCharsmap(json: JsonReader): Charsmap {
  const key = "precompiled_charsmap";
  const bytes = decodeBase64(json, key);
  try {
    return new Charsmap(bytes);
  } catch {
    throw json.error(key, `has ${bytes.length} bytes that are no rules`);
  }
}

function decodeBase64(json: JsonReader, key: string): Uint8Array {
  const text = json.string(key);
  try {
    return Uint8Array.fromBase64(text);
  } catch {
    throw json.error(key, "is not base64");
  }
}
