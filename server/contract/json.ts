/**
 * JSON texts of strangers, and how much work one is before it is parsed: parsing holds up every other request. Texts in it,
 * such as images in base64, are taken fast; what is around them is not.
 */

import { badRequest } from "./errors.ts";

/** Most bytes outside of texts: numbers, spaces, signs. */
const MAX_PLAIN_BYTES = 2 ** 20;
/** Most signs that each come with a value or a name. */
const MAX_SIGNS = 10_000;
const MAX_ESCAPES = 1_000_000;
/** Most lists and objects within each other: whoever walks through a value goes as deep. */
const MAX_DEPTH = 64;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SIGNS: ReadonlySet<number> = new Set([..."[{,:"].map((sign) => sign.charCodeAt(0)));
const OPENING: ReadonlySet<number> = new Set([..."[{"].map((sign) => sign.charCodeAt(0)));
const CLOSING: ReadonlySet<number> = new Set([..."]}"].map((sign) => sign.charCodeAt(0)));

/** Counts what makes a text slow to parse, piece by piece. */
export class JsonTally {
  #plain = 0;
  #signs = 0;
  #escapes = 0;
  #depth = 0;
  #deepest = 0;
  #isInText = false;
  /** Whether the first byte of the next piece belongs to an escape. */
  #isEscaped = false;

  /** Counts a piece, and says in words what there is too much of. */
  add(piece: Uint8Array): string | undefined {
    let at = 0;
    while (at < piece.length) {
      at = this.#isInText ? this.#skipText(piece, at) : this.#countPlain(piece, at);
      const excess = this.#excess();
      if (excess !== undefined) return `it has more than ${excess}`;
    }
    return undefined;
  }

  /** Begins another text, for which the counts go on. */
  next(): void {
    this.#isInText = false;
    this.#isEscaped = false;
    this.#depth = 0;
  }

  #countPlain(piece: Uint8Array, start: number): number {
    const quote = piece.indexOf(QUOTE, start);
    const end = quote < 0 ? piece.length : quote;
    this.#plain += end - start;
    for (let at = start; at < end; at++) {
      const byte = piece[at]!;
      if (SIGNS.has(byte)) this.#signs++;
      if (OPENING.has(byte)) this.#deepest = Math.max(this.#deepest, ++this.#depth);
      else if (CLOSING.has(byte)) this.#depth--;
    }
    if (quote < 0) return end;
    this.#isInText = true;
    this.#signs++;
    return quote + 1;
  }

  #skipText(piece: Uint8Array, start: number): number {
    let at = start;
    if (this.#isEscaped) {
      at++;
      this.#isEscaped = false;
    }
    const found = piece.indexOf(QUOTE, at);
    const quote = found < 0 ? piece.length : found;
    for (;;) {
      const escape = piece.subarray(at, quote).indexOf(BACKSLASH);
      if (escape < 0) break;
      this.#escapes++;
      at += escape + 2;
      // The quote, or what comes with the next piece, is the second half of the escape.
      if (at > quote) {
        this.#isEscaped = at > piece.length;
        return Math.min(at, piece.length);
      }
    }
    if (found < 0) return piece.length;
    this.#isInText = false;
    return found + 1;
  }

  #excess(): string | undefined {
    if (this.#plain > MAX_PLAIN_BYTES) return `${MAX_PLAIN_BYTES} bytes outside of texts`;
    if (this.#signs > MAX_SIGNS) return `${MAX_SIGNS} of the characters [{,:"`;
    if (this.#deepest > MAX_DEPTH) return `${MAX_DEPTH} lists and objects within each other`;
    if (this.#escapes > MAX_ESCAPES) return `${MAX_ESCAPES} of the characters \\`;
    return undefined;
  }
}

/** Longest text that is read as JSON, in characters: parsing a longer one would hold up every other request. */
export const MAX_JSON_TEXT: number = 2 ** 20;

/** Undefined for what is no JSON. @throws {ApiError} 400 where it holds too much together with the texts of `tally` */
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
