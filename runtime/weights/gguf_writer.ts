/** The head of a GGUF file, and where its tensors go. */
import { elementCount, formatShape, type Shape } from "../shape.ts";
import type { FileLayout, NewTensor } from "./container.ts";
import { GGUF_MAGIC, ORIGINAL_SHAPE } from "./gguf.ts";
import { GGML_TYPES } from "./gguf_types.ts";

const VERSION = 3;
const ALIGNMENT = 32;
/** Most dimensions of a tensor in ggml. */
const MAX_DIMENSIONS = 4;

/** Numbers of value types. */
const U32 = 4;
const I32 = 5;
const F32 = 6;
const BOOL = 7;
const STRING = 8;
const ARRAY = 9;

/** Keys of floats, which may have no fraction. */
const FLOAT_KEY = /(?:freq_base|epsilon|factor|scale_linear)$/;

const NUMBERS = new Map([...GGML_TYPES].map(([number, [format]]) => [format, number]));

/**
 * Lays a file out. A tensor of more than four dimensions loses the first ones to the one behind them, and its shape is kept under the
 * key that ComfyUI's converter has for that.
 *
 * @param metadata text, switches, integers of 32 bits, or floats of 32 bits where a number is none, or its key is a float's
 * @throws {RangeError} when ggml has no such format, or a row would end inside a block
 */
export function layOutGguf(
  tensors: readonly NewTensor[],
  metadata: Readonly<Record<string, string | number | boolean>> = {},
): FileLayout {
  const head = new GgufHead();
  const reshaped = tensors.filter(({ shape }) => shape.length > MAX_DIMENSIONS);
  head.u32(GGUF_MAGIC, VERSION).u64(tensors.length);
  head.u64(Object.keys(metadata).length + reshaped.length);
  for (const [key, value] of Object.entries(metadata)) {
    head.text(key);
    if (typeof value === "string") head.u32(STRING).text(value);
    else if (typeof value === "boolean") head.u32(BOOL).byte(Number(value));
    else if (Number.isInteger(value) && value >= 0 && !FLOAT_KEY.test(key)) head.u32(U32, value);
    else head.u32(F32).f32(value);
  }
  for (const { name, shape } of reshaped) {
    head.text(ORIGINAL_SHAPE + name).u32(ARRAY, I32).u64(shape.length).u32(...shape);
  }
  let offset = 0;
  const offsets = tensors.map(({ name, format, shape }) => {
    const number = NUMBERS.get(format);
    const [, elements, bytes] = GGML_TYPES.get(number ?? -1) ?? ["", 1, 0];
    if (number === undefined || (shape.at(-1) ?? 1) % elements !== 0) {
      throw new RangeError(
        `Cannot write tensor "${name}" ${formatShape(shape)} as ${format} into a GGUF file`,
      );
    }
    const dimensions = withFewDimensions(shape);
    head.text(name).u32(dimensions.length);
    for (const size of dimensions.toReversed()) head.u64(size);
    head.u32(number).u64(offset);
    const start = offset;
    offset += Math.ceil(elementCount(shape) / elements * bytes / ALIGNMENT) * ALIGNMENT;
    return start;
  });
  const header = head.padded(ALIGNMENT);
  return {
    header,
    byteOffsets: offsets.map((start) => header.byteLength + start),
    fileBytes: header.byteLength + offset,
  };
}

function withFewDimensions(shape: Shape): Shape {
  const merged = Math.max(0, shape.length - MAX_DIMENSIONS) + 1;
  return [elementCount(shape.slice(0, merged)), ...shape.slice(merged)];
}

class GgufHead {
  readonly #parts: Uint8Array[] = [];

  u32(...values: readonly number[]): this {
    this.#parts.push(new Uint8Array(Uint32Array.from(values).buffer));
    return this;
  }

  f32(value: number): this {
    this.#parts.push(new Uint8Array(Float32Array.of(value).buffer));
    return this;
  }

  byte(value: number): this {
    this.#parts.push(Uint8Array.of(value));
    return this;
  }

  u64(value: number): this {
    this.#parts.push(new Uint8Array(BigUint64Array.of(BigInt(value)).buffer));
    return this;
  }

  text(value: string): this {
    const bytes = new TextEncoder().encode(value);
    this.u64(bytes.byteLength).#parts.push(bytes);
    return this;
  }

  padded(alignment: number): Uint8Array<ArrayBuffer> {
    const length = this.#parts.reduce((sum, part) => sum + part.byteLength, 0);
    const result = new Uint8Array(Math.ceil(length / alignment) * alignment);
    let at = 0;
    for (const part of this.#parts) {
      result.set(part, at);
      at += part.byteLength;
    }
    return result;
  }
}
