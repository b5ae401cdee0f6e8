/** Pieces of SentencePiece: text with marks in place of spaces, and `<0x0A>` and the like, each a byte of what no other piece has. */

export const SPACE_MARK = "\u2581";

const encoder = new TextEncoder();

export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

export function byteOfPiece(piece: string): number | undefined {
  const match = /^<0x([0-9A-F]{2})>$/.exec(piece);
  return match === null ? undefined : parseInt(match[1]!, 16);
}

export function pieceOfByte(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
}

/** The bytes of a piece: its UTF-8 with spaces for marks, or with `byteFallback` the one that it stands for. */
export function bytesOfPiece(piece: string, byteFallback: boolean): Iterable<number> {
  const byte = byteFallback ? byteOfPiece(piece) : undefined;
  return byte === undefined ? utf8(piece.replaceAll(SPACE_MARK, " ")) : [byte];
}
