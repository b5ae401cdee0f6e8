/** Arrays in the metadata of GGUF files, such as the vocabulary of a tokenizer. */
import { readFully } from "./container.ts";
import type { GgufArray } from "./gguf_types.ts";

/** More than any vocabulary or its merges have. */
const MAX_LENGTH = 2 ** 20;

/** The number of the type of texts. */
const TEXT = 8;

type NumbersOf = new (buffer: ArrayBuffer) => ArrayLike<number>;

/** Typed arrays by the number of their elements' type. */
const NUMBERS: ReadonlyMap<number, NumbersOf> = new Map<number, NumbersOf>([
  [0, Uint8Array],
  [1, Int8Array],
  [2, Uint16Array],
  [3, Int16Array],
  [4, Uint32Array],
  [5, Int32Array],
  [6, Float32Array],
  [7, Uint8Array],
  [12, Float64Array],
]);

/**
 * Reads an array whole.
 *
 * @throws {SyntaxError} when it is longer than any that is of use, or of 64-bit integers
 */
export function readGgufArray(
  file: Deno.FsFile,
  { type, length, byteOffset, byteLength }: GgufArray,
  path: string,
): string[] | ArrayLike<number> {
  const Numbers = NUMBERS.get(type);
  if (length > MAX_LENGTH || (type !== TEXT && !Numbers)) {
    throw new SyntaxError(
      `Cannot read "${path}": an array of its metadata has ${length} elements of type ${type}, ` +
        `up to ${MAX_LENGTH} texts or numbers are read; fetch the file again`,
    );
  }
  const bytes = new Uint8Array(byteLength);
  readFully(file, byteOffset, bytes);
  if (Numbers) return new Numbers(bytes.buffer);
  const view = new DataView(bytes.buffer);
  const decoder = new TextDecoder();
  const texts: string[] = [];
  for (let at = 0; texts.length < length;) {
    // Lengths were followed once already, when the header was read.
    const end = at + 8 + Number(view.getBigUint64(at, true));
    texts.push(decoder.decode(bytes.subarray(at + 8, end)));
    at = end;
  }
  return texts;
}
