/** HTML character references, as Python's `html.unescape` reads them. */

import { decodeHTML } from "entities";

/** Numbers from 0x80 to 0x9F stand for what these bytes are in Windows-1252. */
const WINDOWS_1252 = new TextDecoder("windows-1252");

/**
 * Replaces named and numeric character references by their characters. Names that HTML allows
 * without a semicolon are found without one, by the longest match, even inside a word: `&notit;`
 * becomes `¬it;`. Numbers of controls and of noncharacters vanish, which is Python's choice.
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
