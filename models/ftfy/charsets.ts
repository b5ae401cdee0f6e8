/** Single-byte character sets that UTF-8 text gets misread in. */

/** Stands for a character that was lost, U+FFFD, in encoded text. */
export const LOST = "\x1a";

/** A single-byte character set. */
export interface Charset {
  /** WHATWG label of the character set, or "latin-1" for the one in which every byte is its own code point. */
  readonly label: string;
  /** The character of every byte from 0x80 to 0xFF. */
  readonly upper: readonly string[];
  /** Whether a misread space may stand for byte 0xA0. */
  readonly restoresSpaces: boolean;
  readonly bytes: ReadonlyMap<string, number>;
}

/** Character sets in the order in which they are tried. */
export const CHARSETS: readonly Charset[] = [
  "latin-1",
  "windows-1252",
  "windows-1251",
  "windows-1250",
  "windows-1253",
  "windows-1254",
  "windows-1257",
  "iso-8859-2",
  "macintosh",
].map(makeCharset);

function makeCharset(label: string): Charset {
  const codes = Array.from({ length: 128 }, (_, i) => 0x80 + i);
  const upper = codes.map((code) => {
    const same = String.fromCharCode(code);
    if (label === "latin-1") return same;
    const character = new TextDecoder(label).decode(Uint8Array.of(code));
    // Bytes without a character pass through as they are.
    return character === "\ufffd" ? same : character;
  });
  const bytes = new Map(upper.map((character, i) => [character, 0x80 + i]));
  if (label.startsWith("windows")) bytes.set("\ufffd", LOST.charCodeAt(0));
  return { label, upper, bytes, restoresSpaces: label !== "macintosh" };
}

/**
 * The bytes of a text in a character set, as a string of code units 0 to 255, or undefined where it
 * has other characters. U+FFFD becomes {@link LOST}.
 */
export function encode(text: string, charset: Charset): string | undefined {
  let out = "";
  for (const character of text) {
    const code = character.codePointAt(0)!;
    const lossy = charset.bytes.has("\ufffd");
    if (code < 0x80 && !(lossy && character === LOST)) {
      out += character;
      continue;
    }
    const byte = charset.bytes.get(character);
    if (byte === undefined) return undefined;
    out += String.fromCharCode(byte);
  }
  return out;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of UTF-8 bytes, given as code units 0 to 255, or undefined if they are malformed. */
export function decodeUtf8(bytes: string): string | undefined {
  try {
    return utf8.decode(Uint8Array.from(bytes, (unit) => unit.charCodeAt(0)));
  } catch {
    return undefined;
  }
}
