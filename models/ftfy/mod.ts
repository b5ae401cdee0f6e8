/**
 * Repair of damaged text, after Python's `ftfy` with its default settings. Misread UTF-8 is repaired by a heuristic of our
 * own ({@link fixEncoding}). Not covered: code page 437, CESU-8, and characters lost to a question mark.
 */
import { decodeHTML, decodeHTMLStrict } from "entities";
import { fixC1Controls, fixEncoding } from "./mojibake.ts";

export { fixEncoding } from "./mojibake.ts";

/** Ligatures and digraphs of Latin letters that stand for typesetting or old encodings only. */
const LIGATURES = /[ĲĳŉǱ-ǳǄ-ǌﬀ-ﬆ]/g;

export function fixText(text: string): string {
  let unescapes = true;
  return text.split(/(?<=\n)/).map((line) => {
    // A "<" shows that entities are meant; it counts for all lines after it, as in ftfy.
    if (line.includes("<")) unescapes = false;
    return fixLine(line, unescapes);
  }).join("");
}

function fixLine(line: string, unescapes: boolean): string {
  let current = line;
  for (;;) {
    let next = unescapes ? unescapeStrict(current) : current;
    next = fixC1Controls(fixEncoding(next));
    next = next.replace(LIGATURES, (letter) => (letter === "ﬅ" ? "ſt" : letter.normalize("NFKC")));
    next = fixWidth(next);
    next = next.replace(/[“-‟]/g, '"').replace(/[ʼ‘-‛]/g, "'");
    next = next.replace(/\r\n|[\r\u2028\u2029\u0085]/g, "\n").toWellFormed();
    next = removeControls(next).normalize("NFC");
    if (next === current) return current;
    current = next;
  }
}

function fixWidth(text: string): string {
  return text.replace(/[\u3000\uff01-\uffef]/g, (character) => character.normalize("NFKC"));
}

function removeControls(text: string): string {
  // deno-lint-ignore no-control-regex
  const escapes = /\x1b\[[\d;]*[a-zA-Z]/g;
  // deno-lint-ignore no-control-regex
  const controls = /[\x00-\x08\x0b\x0e-\x1f\x7f\u206a-\u206f\ufeff\ufff9-\ufffc]/g;
  return text.replace(escapes, "").replace(controls, "");
}

/** Entities that are beyond doubt: whole names, all-capital spellings of them, and whole numbers. */
function unescapeStrict(text: string): string {
  // Repetition would undo nested ampersands one level at a time; this takes all levels but one.
  const nested = text.replace(/&(?:(?:amp|AMP|#0{0,9}38|#[xX]0{0,9}26);){2,}/g, "&amp;");
  return nested.replace(/&#?[0-9A-Za-z]{1,24};/g, (entity) => {
    if (entity.startsWith("&#")) {
      const character = unescapeHtml(entity);
      return character.includes(";") ? entity : character;
    }
    const known = decodeHTMLStrict(entity);
    if (known !== entity) return known;
    const lower = entity.toLowerCase();
    const base = entity === entity.toUpperCase() && decodeHTML(entity) === entity
      ? decodeHTMLStrict(lower)
      : lower;
    return base === lower ? entity : base.toUpperCase();
  });
}

/** Numbers from 0x80 to 0x9F stand for what these bytes are in Windows-1252. */
const WINDOWS_1252 = new TextDecoder("windows-1252");

/**
 * Character references as characters; names without a semicolon by the longest match, even inside a word: `&notit;` becomes
 * `¬it;`. Numbers of controls and of noncharacters vanish, which is Python's choice.
 */
export function unescapeHtml(text: string): string {
  return text.replace(
    /&(?:#(\d+);?|#[xX]([0-9a-fA-F]+);?|[^\t\n\f <&#;]{1,32};?)/g,
    (reference, decimal?: string, hexadecimal?: string) => {
      if (decimal !== undefined) return numericReference(Number(decimal));
      if (hexadecimal !== undefined) return numericReference(parseInt(hexadecimal, 16));
      return decodeHTML(reference);
    },
  );
}

function numericReference(code: number): string {
  if (code === 0 || code >= 0xd800 && code <= 0xdfff || code > 0x10ffff) return "\ufffd";
  if (code === 0x0d) return "\r";
  if (code >= 0x80 && code <= 0x9f) return WINDOWS_1252.decode(Uint8Array.of(code));
  const control = code < 0x20 && code !== 0x09 && code !== 0x0a && code !== 0x0c;
  if (control || code === 0x7f || isNoncharacter(code)) return "";
  return String.fromCodePoint(code);
}

function isNoncharacter(code: number): boolean {
  return code >= 0xfdd0 && code <= 0xfdef || (code & 0xfffe) === 0xfffe;
}

// What Python counts as white space: Unicode's, and the four separators of ASCII.
// deno-lint-ignore no-control-regex
const WHITESPACE = /[\p{White_Space}\x1c-\x1f]+/gu;

/** What diffusers' Wan pipelines do to a prompt if `ftfy` is installed. */
export function cleanPrompt(prompt: string): string {
  const text = unescapeHtml(unescapeHtml(fixText(prompt)));
  return text.replace(WHITESPACE, " ").replace(/^ | $/g, "");
}
