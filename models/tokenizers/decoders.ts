/**
 * The decoders of a `tokenizer.json`, as Hugging Face's `tokenizers` defines them: they turn pieces
 * back into text.
 */

import { fromByteCharacters } from "./byte_level.ts";
import type { JsonReader } from "./json_fields.ts";
import { compilePattern } from "./patterns.ts";
import { readMark, readPrependScheme } from "./pre_tokenizers.ts";
import { checkTextLength, replaceLiteral, replaceMatches } from "./text_limit.ts";
import { byteOfPiece } from "./unigram.ts";

/** One step of the way from pieces to text; the text is what the last step gives, joined. */
export type PieceDecoder = (pieces: readonly string[]) => string[];

const SUPPORTED = [
  "Metaspace",
  "ByteLevel",
  "ByteFallback",
  "Fuse",
  "Replace",
  "Strip",
  "Sequence",
];

/**
 * The decoder that an object of a `tokenizer.json` describes; none puts spaces between pieces.
 *
 * @throws {TypeError} if its type is not supported or a field is wrong
 */
export function readDecoder(json: JsonReader | undefined): PieceDecoder {
  if (json === undefined) return (pieces) => [pieces.join(" ")];
  const type = json.type;
  switch (type) {
    case "Metaspace":
      return metaspaceDecoder(readMark(json), readPrependScheme(json) !== "never");
    case "ByteLevel":
      return (pieces) => [fromByteCharacters(pieces)];
    case "ByteFallback":
      return decodeBytes;
    case "Fuse":
      return (pieces) => [pieces.join("")];
    case "Replace": {
      const content = json.string("content");
      const pattern = json.object("pattern");
      if (typeof pattern.fields["String"] === "string") {
        const replace = replaceLiteral(pattern.fields["String"], content);
        return (pieces) => pieces.map(replace);
      }
      const replace = replaceMatches(compilePattern(pattern, "Regex"), content);
      return (pieces) => pieces.map(replace);
    }
    case "Strip":
      return stripDecoder(json.string("content"), json.index("start"), json.index("stop"));
    case "Sequence": {
      const parts = json.objects("decoders").map(readDecoder);
      return (pieces) =>
        parts.reduce<string[]>((current, part) => {
          const next = part(current);
          checkTextLength(next.reduce((sum, { length }) => sum + length, 0));
          return next;
        }, [...pieces]);
    }
    default:
      throw json.unsupported("decoder", SUPPORTED);
  }
}

/** Turns marks into spaces; those of the first piece go away where one was put there. */
export function metaspaceDecoder(mark: string, prepended: boolean): PieceDecoder {
  return (pieces) =>
    pieces.map((piece, i) => piece.replaceAll(mark, i === 0 && prepended ? "" : " "));
}

/** Joins runs of byte pieces to characters; every byte of a malformed run becomes U+FFFD. */
export function decodeBytes(pieces: readonly string[]): string[] {
  const out: string[] = [];
  let bytes: number[] = [];
  const flush = (): void => {
    if (bytes.length === 0) return;
    try {
      out.push(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(
        Uint8Array.from(bytes),
      ));
    } catch {
      for (let i = 0; i < bytes.length; i++) out.push("\ufffd");
    }
    bytes = [];
  };
  for (const piece of pieces) {
    const byte = byteOfPiece(piece);
    if (byte === undefined) {
      flush();
      out.push(piece);
    } else {
      bytes.push(byte);
    }
  }
  flush();
  return out;
}

function stripDecoder(content: string, start: number, stop: number): PieceDecoder {
  return (pieces) =>
    pieces.map((piece) => {
      let [from, to] = [0, piece.length];
      while (from < start * content.length && piece.startsWith(content, from)) {
        from += content.length;
      }
      const floor = Math.max(from, piece.length - stop * content.length);
      while (to > floor && piece.slice(from, to).endsWith(content)) to -= content.length;
      return piece.slice(from, to);
    });
}
