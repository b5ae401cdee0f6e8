import type { FileSource } from "../../platform/mod.ts";
import type { GgufArray, GgufValue } from "./gguf_types.ts";

const CHUNK_BYTES = 256 * 1024;

/** Largest header that is read; those with a tokenizer of 260 000 pieces have 12 MB. */
const MAX_HEADER_BYTES = 64 * 1024 * 1024;

/** Longer texts are passed over, such as a chat template. */
const MAX_TEXT_BYTES = 2048;

/** Of longer arrays only the place is kept; a shape has at most 8 sizes. */
const MAX_ARRAY_LENGTH = 64;

/** Numbers of the types that values have. */
const TEXT = 8;
const ARRAY = 9;

type ReadScalar = (view: DataView, at: number) => number | boolean;

/** Bytes of a scalar by the number of its type, and how it is read. */
const SCALARS: ReadonlyMap<number, readonly [bytes: number, read: ReadScalar]> = new Map<
  number,
  readonly [number, ReadScalar]
>([
  [0, [1, (view, at) => view.getUint8(at)]],
  [1, [1, (view, at) => view.getInt8(at)]],
  [2, [2, (view, at) => view.getUint16(at, true)]],
  [3, [2, (view, at) => view.getInt16(at, true)]],
  [4, [4, (view, at) => view.getUint32(at, true)]],
  [5, [4, (view, at) => view.getInt32(at, true)]],
  [6, [4, (view, at) => view.getFloat32(at, true)]],
  [7, [1, (view, at) => view.getUint8(at) !== 0]],
  [10, [8, (view, at) => Number(view.getBigUint64(at, true))]],
  [11, [8, (view, at) => Number(view.getBigInt64(at, true))]],
  [12, [8, (view, at) => view.getFloat64(at, true)]],
]);

/** Reads the header of a GGUF file from its start to its end, with the memory of one chunk. */
export class GgufReader {
  readonly fileBytes: number;
  readonly #file: FileSource;
  readonly #fail: (what: string) => never;
  readonly #chunk = new DataView(new ArrayBuffer(CHUNK_BYTES));
  #chunkStart = 0;
  #chunkEnd = 0;
  #position = 0;

  constructor(file: FileSource, fail: (what: string) => never) {
    this.#file = file;
    this.#fail = fail;
    this.fileBytes = file.size;
  }

  get position(): number {
    return this.#position;
  }

  u32(): number {
    return this.#chunk.getUint32(this.#take(4), true);
  }

  /** The next 8 bytes; rounded where a double does not hold them. */
  u64(): number {
    return Number(this.#chunk.getBigUint64(this.#take(8), true));
  }

  /** A name: a length, and as many bytes of UTF-8. */
  text(): string {
    const length = this.u64();
    return length <= MAX_TEXT_BYTES
      ? this.#decode(length)
      : this.#fail(`a name claims ${length} bytes, the limit is ${MAX_TEXT_BYTES}`);
  }

  /** A value of a type, or where an array lies; neither for texts that are too long to be of interest. */
  value(type: number): { readonly value?: GgufValue; readonly array?: GgufArray } {
    if (type === TEXT) {
      const length = this.u64();
      if (length <= MAX_TEXT_BYTES) return { value: this.#decode(length) };
      this.#advance(length);
      return {};
    }
    if (type === ARRAY) return this.#array();
    const [bytes, read] = this.#scalarOf(type);
    return { value: read(this.#chunk, this.#take(bytes)) };
  }

  #scalarOf(type: number): readonly [bytes: number, read: ReadScalar] {
    return SCALARS.get(type) ?? this.#fail(`a value of its metadata has the type ${type}`);
  }

  #array(): { readonly value?: readonly number[]; readonly array: GgufArray } {
    const type = this.u32();
    const length = this.u64();
    const byteOffset = this.#position;
    const here = () => ({ type, length, byteOffset, byteLength: this.#position - byteOffset });
    if (type === ARRAY) this.#fail("its metadata nests arrays");
    if (type === TEXT) {
      for (let i = 0; i < length; i++) this.#advance(this.u64());
      return { array: here() };
    }
    const [bytes, read] = this.#scalarOf(type);
    if (length <= MAX_ARRAY_LENGTH) {
      const value = Array.from({ length }, () => Number(read(this.#chunk, this.#take(bytes))));
      return { value, array: here() };
    }
    this.#advance(length * bytes);
    return { array: here() };
  }

  #decode(length: number): string {
    const at = this.#take(length);
    return new TextDecoder().decode(new Uint8Array(this.#chunk.buffer, at, length));
  }

  /** Moves on by `length` bytes, at most a chunk, and says where in the chunk they are. */
  #take(length: number): number {
    const start = this.#position;
    this.#advance(length);
    if (this.#position > this.#chunkEnd) {
      const size = Math.min(CHUNK_BYTES, this.fileBytes - start);
      this.#file.read(start, new Uint8Array(this.#chunk.buffer, 0, size));
      this.#chunkStart = start;
      this.#chunkEnd = start + size;
    }
    return start - this.#chunkStart;
  }

  #advance(length: number): void {
    const end = this.#position + length;
    if (!(end <= this.fileBytes)) {
      this.#fail(`its header goes on to byte ${end}, the file has ${this.fileBytes}`);
    }
    if (end > MAX_HEADER_BYTES) {
      this.#fail(`its header goes on beyond ${MAX_HEADER_BYTES} bytes, the limit`);
    }
    this.#position = end;
  }
}

/** More than any vocabulary or its merges have. */
const MAX_LENGTH = 2 ** 20;

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

export function readGgufArray(
  file: FileSource,
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
  file.read(byteOffset, bytes);
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
