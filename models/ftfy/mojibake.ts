/**
 * Repair of UTF-8 that was decoded in a single-byte character set: "Ã©" for "é". The test is our own: it looks for sequences
 * in the shape of UTF-8 that text hardly ever means. If the whole text is UTF-8 then, it is decoded; else only these.
 */

/** Stands for a character that was lost, U+FFFD, in encoded text. */
export const LOST = "\x1a";

export interface Charset {
  /** WHATWG label of the character set, or "latin-1" for the one in which every byte is its own code point. */
  readonly label: string;
  /** The character of every byte from 0x80 to 0xFF. */
  readonly upper: readonly string[];
  /** Whether a misread space may stand for byte 0xA0. */
  readonly restoresSpaces: boolean;
  readonly bytes: ReadonlyMap<string, number>;
}

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

/** The bytes of a text as code units 0 to 255, or undefined if it has other characters; U+FFFD becomes {@link LOST}. */
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

/** Characters that do follow letters in ordinary text: spaces, hyphens, dashes, quotation marks. */
const ORDINARY = new Set("\u00a0\u00ad´·–—―…‘’“”«»‹›®™°©");

/** Signs that open a quotation, a question or a list. */
const OPENING = new Set("¡«¿©‘‚“„•‹");

const CLOSING = new Set("®»”›™");

const CURRENCY = new Set("€¢£¥");

/** Symbols that no one writes right after a capital letter. */
const ODD = new Set("¤¦¨¬¯¸ªº¹²³±¼½¾µ¶§°ƒˆ˜†‡‰");

function oneOf(characters: Iterable<string>): string {
  const escapes = Array.from(new Set(characters), (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
  return `[${escapes.join("")}]`;
}

/** Sequences in the shape of UTF-8: two, three and four bytes, the first of each given as a range. */
interface Shape {
  readonly lead: (from: number, to?: number) => string;
  readonly continuation: string;
  readonly charset: Charset;
}

function shapeOf(charset: Charset): Shape {
  const character = (byte: number): string => charset.upper[byte - 0x80]!;
  const range = (from: number, to = from): string[] => {
    return Array.from({ length: to - from + 1 }, (_, i) => character(from + i));
  };
  return {
    lead: (from, to) => oneOf(range(from, to)),
    continuation: oneOf(range(0x80, 0xbf)),
    charset,
  };
}

function evidenceIn(shape: Shape): string[] {
  const { lead, continuation, charset } = shape;
  const tail = charset.upper.slice(0, 64);
  const among = (...sets: ReadonlySet<string>[]): string => {
    return oneOf(tail.filter((c) => sets.some((set) => set.has(c))));
  };
  const unusual = tail.filter((c) => !ORDINARY.has(c));
  const symbol = oneOf(unusual.filter((c) => !/\p{L}/u.test(c)));
  const punctuation = `${lead(0xe2)}${lead(0x80)}`;
  if (charset.label === "windows-1251") {
    const three = `${lead(0xe0, 0xef)}(?:${symbol}${continuation}|${continuation}${symbol})`;
    return [
      punctuation,
      `(?:[РС]${continuation}){2}`,
      `(?:${lead(0xc2, 0xc3)}|[РС])${symbol}[ВГРС]`,
      three,
    ];
  }
  const general = [punctuation, `${lead(0xc2, 0xc3)}${symbol}`];
  if (charset.label === "windows-1253") return general;
  if (charset.label === "macintosh") {
    // The root and the sign of approximation do stand before mathematical symbols.
    const letters = `${lead(0xc2, 0xc5)}(?![π∞∑∏∫Ω∂])${continuation}`;
    return [punctuation, letters, `(?:${lead(0xce, 0xd1)}${continuation}){2}`];
  }
  general.push(
    `${lead(0xc2, 0xdf)}${among(OPENING, CLOSING)}\\p{L}`,
    `[a-z]${lead(0xc2, 0xdf)}${among(OPENING, CURRENCY)}`,
  );
  if (charset.label !== "windows-1252") return general;
  const any = oneOf([...tail, "\ufffd"]);
  const other = oneOf(unusual);
  return [
    ...general,
    `${lead(0xf0, 0xf4)}${continuation}{3}`,
    `${lead(0xe0, 0xef)}(?!${among(OPENING)})(?:${other}${continuation}|${continuation}${other})`,
    `${lead(0xe0, 0xef)}${among(CLOSING)}${among(OPENING)}|ï¿½|ï»¿|â‚¬`,
    // All but "Ã’" and "Ã…", which are not rare enough before a closing quote or an ellipsis.
    `[ÂÃ](?![’…])${continuation}`,
    `[ÎÐ][œŠšŸž\\u00a0\\u00ad°·–—´]|[ÎÐ]${among(OPENING, CLOSING, CURRENCY)}`,
    `${lead(0xc4, 0xdf)}${among(ODD)}`,
    `${lead(0xc4, 0xdf)}${other}${lead(0xc4, 0xdf)}${continuation}`,
    `${lead(0xc4, 0xdf)}${continuation}${lead(0xc4, 0xdf)}${other}`,
    `[a-z]\\s?[ÂÃ] |^[ÂÃ] `,
    `${lead(0xc2, 0xdf)}\ufffd|${lead(0xe0, 0xef)}(?:\ufffd${any}|${any}\ufffd)`,
  ];
}

const SHAPES = CHARSETS.filter(({ label }) => label !== "latin-1").map(shapeOf);

const C1 = "[\\u0080-\\u009f]";

const EVIDENCE = new RegExp([C1, ...SHAPES.flatMap(evidenceIn)].join("|"), "u");

/** Runs of UTF-8 shapes in any of the Windows character sets, for texts of mixed origin. */
const RUN = runOf(SHAPES.filter(({ charset }) => charset.label.startsWith("windows")));

function runOf(shapes: readonly Shape[]): RegExp {
  const lead = (from: number, to: number): string => {
    return `(?:${shapes.map((shape) => shape.lead(from, to)).join("|")})`;
  };
  const next = `(?:${shapes.map(({ continuation }) => continuation).join("|")}|${C1}| )`;
  const two = `${lead(0xc2, 0xdf)}${next}`;
  const three = `${lead(0xe0, 0xef)}${next}{2}`;
  const four = `${lead(0xf0, 0xf4)}${next}{3}`;
  return new RegExp(`(?:${two}|${three}|${four})+`, "g");
}

export function fixEncoding(text: string): string {
  let current = text;
  for (;;) {
    const next = fixOnce(current);
    if (next === current) return current;
    current = next;
  }
}

function fixOnce(text: string): string {
  if (!EVIDENCE.test(text)) return text;
  for (const charset of CHARSETS) {
    const decoded = decodeMisread(text, charset);
    if (decoded !== undefined) return decoded;
  }
  const fixed = text.replace(RUN, (part) => {
    return part.length < text.length && EVIDENCE.test(part) ? fixEncoding(part) : part;
  });
  return fixed === text ? fixC1Controls(text) : fixed;
}

function decodeMisread(text: string, charset: Charset): string | undefined {
  let bytes = encode(text, charset);
  if (bytes === undefined) return undefined;
  if (charset.restoresSpaces) bytes = restoreSpaces(bytes);
  if (charset.bytes.has("\ufffd")) bytes = markLost(bytes);
  return decodeUtf8(bytes);
}

/** Puts back byte A0 where a space took its place: "Ã " at a word's end is "à" and a space, except in "às", "àquele", "àquilo". */
function restoreSpaces(bytes: string): string {
  const tail = "[\\x80-\\x84\\x86-\\x9f\\xa1-\\xbf]";
  const altered = new RegExp(
    `[\\xc2\\xc3\\xc5\\xce\\xd0\\xd9] |[\\xe2\\xe3] ${tail}|[\\xe0-\\xe3]${tail} |` +
      `\\xf0(?: [\\x80-\\xbf]{2}|[\\x80-\\xbf] [\\x80-\\xbf]|[\\x80-\\xbf]{2} )`,
    "g",
  );
  return bytes
    .replace(/\xc3 (?! |quele|quela|quilo|s )/g, "\xc3\xa0 ")
    .replace(altered, (sequence) => sequence.replace(" ", "\xa0"));
}

function markLost(bytes: string): string {
  if (!bytes.includes(LOST)) return bytes;
  const tail = `[\\x80-\\xbf${LOST}]`;
  const broken = new RegExp(
    `(?:[\\xc2-\\xdf]${tail}|[\\xe0-\\xef]${tail}{2}|[\\xf0-\\xf4]${tail}{3})|${LOST}`,
    "g",
  );
  return bytes.replace(
    broken,
    (sequence) => sequence.includes(LOST) ? "\xef\xbf\xbd" : sequence,
  );
}

const windows1252 = new TextDecoder("windows-1252");

export function fixC1Controls(text: string): string {
  return text.replace(
    new RegExp(C1, "g"),
    (control) => windows1252.decode(Uint8Array.of(control.charCodeAt(0))),
  );
}
