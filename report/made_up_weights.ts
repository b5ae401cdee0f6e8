/** Weights of any model that are never anywhere but on the device: their bytes are made up as they are read. */
import {
  blockBytes,
  type DeviceTensor,
  elementCount,
  isWeightFormat,
  type Shape,
  type StorageFormat,
  type StoredPart,
  type StoredTensor,
  type WeightFormat,
  type WeightLayout,
  Weights,
} from "../runtime/mod.ts";
import { encodeElements } from "../runtime/dtype.ts";
import { sampleBlocks } from "../runtime/ops/sample_blocks.ts";

/** How matrices are stored; everything else is f32. */
export type MatrixFormat = "BF16" | "Q8_0" | "Q4_K";

/** Whatever a model asks for: matrices of deviation 1 / sqrt(terms of a sum), vectors of ones; rows of no whole blocks are bf16. */
export class MadeUpWeights extends Weights {
  readonly #stored: Map<string, StoredTensor>;
  readonly #format: MatrixFormat;
  readonly #hasBias: (name: string) => boolean;

  /** `hasBias` tells by the name of a bias whether there is one. */
  constructor(format: MatrixFormat, hasBias: (name: string) => boolean = () => false) {
    const stored = new Map<string, StoredTensor>();
    const contents = new Map<string, RandomBytes>();
    super({
      path: "made-up weights",
      names: { [Symbol.iterator]: () => stored.keys() },
      find: (name) => stored.get(name),
      read(name, start, target) {
        const { format, shape } = stored.get(name)!;
        if (format === "F32") return fillOnes(target);
        const terms = elementCount(shape) / shape[0]!;
        const key = `${format} ${terms}`;
        let random = contents.get(key);
        if (!random) {
          random = new RandomBytes(format.toLowerCase() as StorageFormat, terms ** -0.5);
          contents.set(key, random);
        }
        random.read(start, target);
      },
    });
    this.#stored = stored;
    this.#format = format;
    this.#hasBias = hasBias;
  }

  override has(name: string): boolean {
    return name.endsWith("bias") && this.#hasBias(name);
  }

  override declare(name: string, shape: Shape, layout?: WeightLayout): DeviceTensor {
    this.#makeUp(name, shape);
    return super.declare(name, shape, layout);
  }

  override declareStack(parts: readonly StoredPart[]): DeviceTensor | undefined {
    for (const { name, shape } of parts) this.#makeUp(name, shape);
    return super.declareStack(parts);
  }

  #makeUp(name: string, shape: Shape): void {
    const isWhole = shape.at(-1)! % BLOCK === 0;
    const format = shape.length === 1 ? "F32" : isWhole ? this.#format : "BF16";
    const byteLength = format === "F32"
      ? 4 * elementCount(shape)
      : format === "BF16"
      ? 2 * elementCount(shape)
      : blockBytes(shape, format.toLowerCase() as WeightFormat);
    this.#stored.set(name, { name, format, shape, byteLength });
  }
}

function fillOnes(target: Uint8Array): void {
  const one = new Uint8Array(Float32Array.of(1).buffer);
  for (let i = 0; i < target.length; i += one.length) target.set(one, i);
}

/** Elements that are made, of blocks fewer because each takes longer. */
const ELEMENTS = 2 ** 20;
const BLOCK_ROWS = 256;
export const BLOCK = 256;

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
  const values = Float32Array.from(
    { length: ELEMENTS },
    // Uniform from -√3 to √3 has a deviation of 1.
    () => (Math.random() * 2 - 1) * Math.sqrt(3) * deviation,
  );
  return encodeElements(values, format);
}
