/** Random contents of tensors, which repeat after a while: making all of a large one takes longer than timing it. */

import { type DeviceTensor, isWeightFormat, type StorageFormat } from "../runtime/mod.ts";
import { sampleBlocks } from "../runtime/ops/sample_blocks.ts";
import { blockBytes } from "../runtime/quantization/formats.ts";

/** Elements that are made, of blocks fewer because each takes longer. */
const ELEMENTS = 2 ** 20;
const BLOCK_ROWS = 256;
/** Elements of the largest block. */
export const BLOCK = 256;

/** What tensors of a format are filled with. */
export class RandomBytes {
  readonly #bytes: Uint8Array;

  /** @param deviation the standard deviation of the elements, whose mean is 0 */
  constructor(format: StorageFormat, deviation: number) {
    this.#bytes = make(format, deviation);
  }

  /** Fills `target`, which lies at byte `start` of a tensor. */
  read(start: number, target: Uint8Array): void {
    for (let done = 0; done < target.length;) {
      const from = (start + done) % this.#bytes.length;
      const count = Math.min(this.#bytes.length - from, target.length - done);
      target.set(this.#bytes.subarray(from, from + count), done);
      done += count;
    }
  }
}

function make(format: StorageFormat, deviation: number): Uint8Array {
  if (isWeightFormat(format)) return sampleBlocks([BLOCK_ROWS, BLOCK], format, 1, deviation);
  if (format === "u32") throw new RangeError("Cannot make up indices: they mean something");
  const values = Float32Array.from(
    { length: ELEMENTS },
    // Uniform from -√3 to √3 has a deviation of 1.
    () => (Math.random() * 2 - 1) * Math.sqrt(3) * deviation,
  );
  if (format === "f32") return new Uint8Array(values.buffer);
  const halves = format === "f16"
    ? new Float16Array(values)
    : Uint16Array.from(new Uint32Array(values.buffer), (bits) => bits >>> 16);
  return new Uint8Array(halves.buffer);
}

/** Bytes of one write. */
const CHUNK_BYTES = 4 * 1024 * 1024;

/** Fills an allocated tensor with random numbers. */
export function fillRandom(tensor: DeviceTensor, deviation: number): void {
  const { dtype, shape, byteLength } = tensor;
  const random = new RandomBytes(dtype, deviation);
  const chunk = new Uint8Array(CHUNK_BYTES);
  if (!isWeightFormat(dtype)) {
    for (let start = 0; start < byteLength; start += CHUNK_BYTES) {
      const part = chunk.subarray(0, byteLength - start);
      random.read(start, part);
      tensor.writeBytes(part, start);
    }
    return;
  }
  const columns = shape.at(-1)!;
  const rowBytes = blockBytes([columns], dtype);
  const rows = blockBytes(shape, dtype) / rowBytes;
  const { rowStep } = tensor;
  const step = Math.max(1, Math.floor(CHUNK_BYTES / rowBytes / rowStep)) * rowStep;
  for (let row = 0; row < rows; row += step) {
    const part = new Uint8Array(Math.min(step, rows - row) * rowBytes);
    random.read(row * rowBytes, part);
    tensor.writeRows(part, row);
  }
}
