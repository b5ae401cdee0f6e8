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

/** A tensor as the file has it. */
export interface StoredPart {
  /** Its full name. */
  readonly name: string;
  /** Shape in the file. */
  readonly shape: Shape;
}

interface Declared {
  /** One tensor, or those that lie one after the other in one. */
  readonly parts: readonly StoredPart[];
  readonly layout: WeightLayout;
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
    const used = new Set(this.#declaredNames());
    return [...this.#checkpoint.names].filter((name) => !used.has(name));
  }

  /** The folder that the checkpoint was opened in. */
  get folder(): string {
    return this.#checkpoint.folder;
  }

  /** The first declared tensor that holds NaN or infinity, or nothing; reads all of them from disk. */
  findNonFinite(): string | undefined {
    return findNonFinite(this.#checkpoint, this.#declaredNames());
  }

  *#declaredNames(): Generator<string> {
    for (const { parts } of this.#declared.values()) yield* parts.map(({ name }) => name);
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
    const dtype = this.#stored(name, shape);
    const onDevice = layout === "channels-last" ? [shape[0]!, ...shape.slice(2), shape[1]!] : shape;
    const resident = new Resident(name, onDevice, dtype);
    this.#declared.set(key, { parts: [{ name, shape }], layout, dtype, resident });
    return resident;
  }

  /**
   * Declares weights that lie one after the other on the device, so that one kernel can take them all: each as rows
   * of its last dimension.
   *
   * @param parts with the shapes that the model expects; their last sizes are equal
   * @returns [rows of all, last size], or nothing when their formats differ or a part does not fill whole words
   * @throws {SyntaxError} as {@linkcode Weights.declare}
   */
  declareStack(parts: readonly StoredPart[]): Resident | undefined {
    const key = parts.map(({ name }) => name).join(" + ");
    const known = this.#declared.get(key);
    if (known) return known.resident;
    const dtypes = parts.map(({ name, shape }) => this.#stored(name, shape));
    const [dtype] = dtypes as [DType];
    const sizes = parts.map(({ shape }) => elementCount(shape));
    const isWhole = sizes.every((size) => size * bytesPerElement(dtype) % 4 === 0);
    if (!isWhole || dtypes.some((other) => other !== dtype)) return undefined;
    const last = parts[0]!.shape.at(-1)!;
    const rows = sizes.reduce((sum, size) => sum + size, 0) / last;
    const resident = new Resident(key, [rows, last], dtype);
    this.#declared.set(key, { parts, layout: "as-stored", dtype, resident });
    return resident;
  }

  /** The format of a tensor in the files, after checking that it is as the model expects. */
  #stored(name: string, shape: Shape): DType {
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
    return dtype;
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

  /** Declares weights that lie one after the other and brings them into a graph; see {@linkcode Weights.declareStack}. */
  stack(graph: Graph, parts: readonly StoredPart[]): Tensor | undefined {
    const resident = this.#weights.declareStack(
      parts.map(({ name, shape }) => ({ name: this.#prefix + name, shape })),
    );
    return resident && graph.use(resident);
  }
}

/** Two buffers for all weights of an upload, so that it leaves no garbage behind. */
interface Staging {
  readonly stored: Uint8Array;
  readonly reordered: Uint8Array;
}

/** Bytes of a weight that are read at a time: all of a part, or whole output rows where rows are reordered. */
function chunkBytesOf({ parts, layout, dtype }: Declared): number {
  const [{ shape }] = parts as [StoredPart];
  const longest = Math.max(...parts.map((part) => elementCount(part.shape)));
  const total = longest * bytesPerElement(dtype);
  // Two rows have an even number of 16-bit elements, so that every write starts on a word.
  const unit = layout === "as-stored" ? 4 : total / shape[0]! * 2;
  return Math.min(total, Math.max(unit, Math.floor(CHUNK_BYTES / unit) * unit));
}

function uploadOne(checkpoint: Checkpoint, weight: Declared, staging: Staging): void {
  const { parts, layout, dtype, resident } = weight;
  const elementBytes = bytesPerElement(dtype);
  const chunkBytes = chunkBytesOf(weight);
  let place = 0;
  for (const { name, shape } of parts) {
    const total = elementCount(shape) * elementBytes;
    for (let start = 0; start < total; start += chunkBytes) {
      const length = Math.min(chunkBytes, total - start);
      const chunk = staging.stored.subarray(0, length);
      checkpoint.read(name, start, chunk);
      if (layout === "as-stored") resident.writeBytes(chunk, place + start);
      else {
        const reordered = staging.reordered.subarray(0, length);
        toChannelsLast(chunk, reordered, shape, elementBytes);
        resident.writeBytes(reordered, place + start);
      }
    }
    place += total;
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
