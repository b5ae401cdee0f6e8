/** From tensors on disk to tensors on the device, by ranges: no tensor is ever whole in JavaScript memory. */
import type { Device } from "../device.ts";
import { bytesPerElement, type DType } from "../dtype.ts";
import type { Graph, Tensor } from "../graph.ts";
import { Resident } from "../resident.ts";
import { elementCount, formatShape, sameShape, type Shape } from "../shape.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { findNonFinite } from "./non_finite.ts";

/** Bytes read from disk at a time. */
const CHUNK_BYTES = 8 * 1024 * 1024;

/**
 * How a weight lies on the device. `as-stored`: as in the file. `channels-last`: a convolution's
 * `[out, in, ...taps]` becomes `[out, ...taps, in]`.
 */
export type WeightLayout = "as-stored" | "channels-last";

interface Declared {
  readonly name: string;
  readonly layout: WeightLayout;
  /** Shape in the file. */
  readonly shape: Shape;
  readonly dtype: DType;
  readonly resident: Resident;
}

const DTYPES: Readonly<Record<string, DType>> = { F32: "f32", F16: "f16", BF16: "bf16" };

/** The weights of one component: declared while its graphs are traced, uploaded once. */
export class Weights {
  readonly #checkpoint: Checkpoint;
  readonly #declared = new Map<string, Declared>();

  /** Nothing is read or allocated yet. */
  constructor(checkpoint: Checkpoint) {
    this.#checkpoint = checkpoint;
  }

  /** The top of the name tree. */
  get root(): WeightScope {
    return new WeightScope(this, "");
  }

  /** Device memory of all declared weights, in bytes. */
  get byteLength(): number {
    return this.#declared.values().reduce((sum, { resident }) => sum + resident.byteLength, 0);
  }

  /** The storage format that holds most bytes, as the file names it (`BF16`). */
  get mainFormat(): string {
    const bytes = new Map<string, number>();
    for (const name of this.#checkpoint.names) {
      const { format, byteLength } = this.#checkpoint.find(name)!;
      bytes.set(format, (bytes.get(format) ?? 0) + byteLength);
    }
    return [...bytes].reduce((most, entry) => (entry[1] > most[1] ? entry : most), ["none", -1])[0];
  }

  /** Tensors on disk that no graph asked for. */
  get unused(): string[] {
    const used = new Set(this.#declared.values().map(({ name }) => name));
    return [...this.#checkpoint.names].filter((name) => !used.has(name));
  }

  /** The folder that the checkpoint was opened in. */
  get folder(): string {
    return this.#checkpoint.folder;
  }

  /** The first declared tensor that holds NaN or infinity, or nothing; reads all of them from disk. */
  findNonFinite(): string | undefined {
    return findNonFinite(this.#checkpoint, this.#declared.values().map(({ name }) => name));
  }

  /** True when the checkpoint has a tensor of this name. */
  has(name: string): boolean {
    return this.#checkpoint.find(name) !== undefined;
  }

  /**
   * Declares a weight; the same one every time it is asked for.
   *
   * @param shape the shape that the model expects, as the file lays it out
   * @throws {SyntaxError} when the checkpoint lacks it, or holds another shape or an unknown format
   */
  declare(name: string, shape: Shape, layout: WeightLayout = "as-stored"): Resident {
    const key = `${layout} ${name}`;
    const known = this.#declared.get(key);
    if (known) return known.resident;
    const entry = this.#checkpoint.find(name);
    if (!entry) {
      throw new SyntaxError(
        `Cannot load "${this.#checkpoint.folder}": it lacks tensor "${name}" of shape ${
          formatShape(shape)
        }; weights and config.json belong to different models, or the download is incomplete`,
      );
    }
    if (!sameShape(entry.shape, shape)) {
      throw new SyntaxError(
        `Cannot load "${this.#checkpoint.folder}": tensor "${name}" has shape ${
          formatShape(entry.shape)
        }, its config asks for ${formatShape(shape)}; fetch weights and config.json again`,
      );
    }
    const dtype = DTYPES[entry.format];
    if (!dtype) {
      throw new SyntaxError(
        `Cannot load "${this.#checkpoint.folder}": tensor "${name}" is stored as ${entry.format}, this program reads ${
          Object.keys(DTYPES).join(", ")
        }; fetch the model in one of these`,
      );
    }
    const onDevice = layout === "channels-last" ? [shape[0]!, ...shape.slice(2), shape[1]!] : shape;
    const resident = new Resident(name, onDevice, dtype);
    this.#declared.set(key, { name, layout, shape, dtype, resident });
    return resident;
  }

  /**
   * Allocates and uploads every declared weight that is not on the device already. When it fails, none of these
   * stays there.
   *
   * @param onProgress called with bytes done and bytes in all
   * @throws {OutOfMemoryError} when the device has no room
   * @throws {SyntaxError} when the files are no longer as long as they were
   */
  async upload(device: Device, onProgress?: (done: number, total: number) => void): Promise<void> {
    const missing = [...this.#declared.values()].filter(({ resident }) => !resident.isAllocated);
    const total = missing.reduce((sum, { resident }) => sum + resident.byteLength, 0);
    let done = 0;
    const chunkBytes = missing.reduce((most, weight) => Math.max(most, chunkBytesOf(weight)), 0);
    const staging = { stored: new Uint8Array(chunkBytes), reordered: new Uint8Array(chunkBytes) };
    try {
      await device.guarded(() => {
        for (const weight of missing) {
          weight.resident.allocate(device);
          uploadOne(this.#checkpoint, weight, staging);
          done += weight.resident.byteLength;
          onProgress?.(done, total);
        }
        device.flush();
      });
    } catch (error) {
      for (const { resident } of missing) resident.destroy();
      throw error;
    }
  }

  /** Frees the device memory of all weights. */
  destroy(): void {
    for (const { resident } of this.#declared.values()) resident.destroy();
  }
}

/** A place in the tree of weight names: `weights.scope("blocks.0").tensor(graph, "attn1.to_q.weight", …)`. */
export class WeightScope {
  readonly #weights: Weights;
  readonly #prefix: string;

  /** Use {@linkcode Weights.root}. */
  constructor(weights: Weights, prefix: string) {
    this.#weights = weights;
    this.#prefix = prefix;
  }

  /** The names of the place, without the last dot. */
  get path(): string {
    return this.#prefix.slice(0, -1);
  }

  /** The place below, `name` and a dot added. */
  scope(name: string | number): WeightScope {
    return new WeightScope(this.#weights, `${this.#prefix}${name}.`);
  }

  /** True when the checkpoint has it. */
  has(name: string): boolean {
    return this.#weights.has(this.#prefix + name);
  }

  /** Declares a weight and brings it into a graph; see {@linkcode Weights.declare}. */
  tensor(graph: Graph, name: string, shape: Shape, layout: WeightLayout = "as-stored"): Tensor {
    return graph.use(this.#weights.declare(this.#prefix + name, shape, layout));
  }
}

/** Two buffers for all weights of an upload, so that it leaves no garbage behind. */
interface Staging {
  readonly stored: Uint8Array;
  readonly reordered: Uint8Array;
}

/** Bytes of a weight that are read at a time: all, or whole output rows where rows are reordered. */
function chunkBytesOf({ layout, shape, dtype }: Declared): number {
  const total = elementCount(shape) * bytesPerElement(dtype);
  // Two rows have an even number of 16-bit elements, so that every write starts on a word.
  const unit = layout === "as-stored" ? 4 : total / shape[0]! * 2;
  return Math.min(total, Math.max(unit, Math.floor(CHUNK_BYTES / unit) * unit));
}

function uploadOne(checkpoint: Checkpoint, weight: Declared, staging: Staging): void {
  const { name, layout, shape, dtype, resident } = weight;
  const elementBytes = bytesPerElement(dtype);
  const total = elementCount(shape) * elementBytes;
  const chunkBytes = chunkBytesOf(weight);
  for (let start = 0; start < total; start += chunkBytes) {
    const length = Math.min(chunkBytes, total - start);
    const chunk = staging.stored.subarray(0, length);
    checkpoint.read(name, start, chunk);
    if (layout === "as-stored") resident.writeBytes(chunk, start);
    else {
      const reordered = staging.reordered.subarray(0, length);
      toChannelsLast(chunk, reordered, shape, elementBytes);
      resident.writeBytes(reordered, start);
    }
  }
}

/** `[rows, in, taps]` to `[rows, taps, in]` for the rows in `source`. */
function toChannelsLast(
  source: Uint8Array,
  target: Uint8Array,
  shape: Shape,
  elementBytes: number,
): void {
  const channels = shape[1]!;
  const taps = elementCount(shape.slice(2));
  const ElementArray = elementBytes === 2 ? Uint16Array : Uint32Array;
  const view = (bytes: Uint8Array) =>
    new ElementArray(
      bytes.buffer as ArrayBuffer,
      bytes.byteOffset,
      bytes.byteLength / elementBytes,
    );
  const from = view(source);
  const to = view(target);
  const rowLength = channels * taps;
  for (let row = 0; row < from.length; row += rowLength) {
    for (let channel = 0; channel < channels; channel++) {
      for (let tap = 0; tap < taps; tap++) {
        to[row + tap * channels + channel] = from[row + channel * taps + tap]!;
      }
    }
  }
}
