/** The GGUF container, see https://github.com/ggml-org/ggml/blob/master/docs/gguf.md */
import type { FileSource } from "../../platform/mod.ts";
import { elementCount, formatShape, type Shape } from "../shape.ts";
import { findOverlap, MAX_RANK, nameProblem, type TensorEntry } from "./container.ts";
import { GgufReader } from "./gguf_reader.ts";
import { GGML_TYPES, type GgufArray, type GgufValue, REMOVED_TYPES } from "./gguf_types.ts";

export interface GgufHeader {
  /** Tensors by name, in the order of the file. */
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  /** Metadata without long texts and arrays, such as those of a tokenizer. */
  readonly metadata: ReadonlyMap<string, GgufValue>;
  /** All arrays of the metadata; {@linkcode readGgufArray} reads them. */
  readonly arrays: ReadonlyMap<string, GgufArray>;
}

/** The first four bytes of a file, as a little-endian number: `GGUF`. */
export const GGUF_MAGIC = 0x46554747;

/** More than the metadata or the tensors of any model count. */
const MAX_ENTRIES = 65536;

/** Largest `general.alignment`; files have 32. */
const MAX_ALIGNMENT = 65536;

/** Under this and a tensor's name, ComfyUI's converter keeps the shape that a tensor had before it was reordered. */
export const ORIGINAL_SHAPE = "comfy.gguf.orig_shape.";

/** Reads and checks the header of an open file. No tensor data is read. */
export function readGgufHeader(file: FileSource, path: string): GgufHeader {
  const fail = (what: string): never => {
    throw new SyntaxError(
      `Cannot read "${path}": ${what}. The file is damaged or no GGUF file; fetch it again`,
    );
  };
  const reader = new GgufReader(file, fail);
  if (reader.u32() !== GGUF_MAGIC) fail("it does not begin with GGUF");
  const version = reader.u32();
  if (version !== 2 && version !== 3) {
    const isSwapped = version === 0x02000000 || version === 0x03000000;
    fail(isSwapped ? "it is big-endian" : `its version is ${version}, this program reads 2 and 3`);
  }
  const tensorCount = readCount(reader, "tensors", fail);
  const keyCount = readCount(reader, "keys of metadata", fail);
  const metadata = new Map<string, GgufValue>();
  const arrays = new Map<string, GgufArray>();
  for (let i = 0; i < keyCount; i++) {
    const key = reader.text();
    const { value, array } = reader.value(reader.u32());
    if (value !== undefined) metadata.set(key, value);
    if (array) arrays.set(key, array);
  }
  const alignment = metadata.get("general.alignment") ?? 32;
  if (
    typeof alignment !== "number" || !(alignment >= 1 && alignment <= MAX_ALIGNMENT) ||
    !Number.isInteger(Math.log2(alignment))
  ) {
    return fail(
      `its alignment is ${
        JSON.stringify(alignment).slice(0, 80)
      }, it must be a power of two up to ${MAX_ALIGNMENT}`,
    );
  }
  const infos = Array.from({ length: tensorCount }, () => readInfo(reader, path, fail));
  const dataStart = Math.ceil(reader.position / alignment) * alignment;
  const tensors = new Map<string, TensorEntry>();
  for (const info of infos) {
    const { name } = info;
    if (tensors.has(name)) fail(`it has two tensors "${name}"`);
    if (info.offset % alignment !== 0) {
      fail(`tensor "${name}" begins at ${info.offset}, which is no multiple of ${alignment}`);
    }
    const byteOffset = dataStart + info.offset;
    if (!(byteOffset + info.byteLength <= reader.fileBytes)) {
      fail(
        `tensor "${name}" ends at byte ${
          byteOffset + info.byteLength
        }, the file has ${reader.fileBytes}`,
      );
    }
    const shape = originalShape(metadata, info, fail);
    const { format, byteLength } = info;
    tensors.set(name, { name, format, shape, byteOffset, byteLength });
  }
  const overlap = findOverlap(tensors.values());
  if (overlap) fail(`tensors "${overlap[0].name}" and "${overlap[1].name}" overlap`);
  return { tensors, metadata, arrays };
}

interface TensorInfo {
  readonly name: string;
  readonly shape: Shape;
  readonly format: string;
  readonly byteLength: number;
  /** Offset of the tensor from the start of the data. */
  readonly offset: number;
}

function readCount(reader: GgufReader, what: string, fail: (what: string) => never): number {
  const count = reader.u64();
  return count <= MAX_ENTRIES
    ? count
    : fail(`it claims ${count} ${what}, the limit is ${MAX_ENTRIES}`);
}

function readInfo(
  reader: GgufReader,
  path: string,
  fail: (what: string) => never,
): TensorInfo {
  const name = reader.text();
  const problem = nameProblem(name);
  if (problem) fail(problem);
  const rank = reader.u32();
  if (rank > MAX_RANK) fail(`tensor "${name}" has ${rank} dimensions, the limit is ${MAX_RANK}`);
  // Files count the fastest dimension first.
  const shape = Array.from({ length: rank }, () => reader.u64()).reverse();
  const number = reader.u32();
  const offset = reader.u64();
  const type = GGML_TYPES.get(number);
  if (!type) {
    const known = REMOVED_TYPES.get(number);
    const words = known
      ? `as ${known} (${number}), a type that ggml no longer has`
      : `as ggml's type ${number}, which this program does not know`;
    throw new SyntaxError(
      `Cannot read "${path}": tensor "${name}" is stored ${words}; fetch the model in another type, such as Q8_0`,
    );
  }
  const [format, elements, bytes] = type;
  const count = elementCount(shape);
  if (![count, ...shape].every(Number.isSafeInteger)) {
    fail(`tensor "${name}" has the shape ${formatShape(shape)}`);
  }
  const isWhole = elements === 1 || (shape.at(-1) ?? 1) % elements === 0;
  if (!isWhole) {
    fail(
      `tensor "${name}" of shape ${
        formatShape(shape)
      } and type ${format} ends inside a block of ${elements} elements`,
    );
  }
  return { name, shape, format, byteLength: count / elements * bytes, offset };
}

/** The shape before a converter changed it; the elements are in the same order. */
function originalShape(
  metadata: ReadonlyMap<string, GgufValue>,
  { name, shape }: TensorInfo,
  fail: (what: string) => never,
): Shape {
  const original = metadata.get(ORIGINAL_SHAPE + name);
  if (original === undefined) return shape;
  const isShape = Array.isArray(original) &&
    original.every((size) => Number.isSafeInteger(size) && size >= 0) &&
    elementCount(original) === elementCount(shape);
  return isShape
    ? original as readonly number[]
    : fail(`tensor "${name}" of shape ${formatShape(shape)} was not [${original}]`);
}
