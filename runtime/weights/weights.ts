/** From stored tensors to tensors on the device, by ranges: no tensor is ever whole in JavaScript memory. */
import type { Device } from "../device.ts";
import { bytesPerElement, type StorageFormat } from "../dtype.ts";
import type { Graph, Tensor } from "../graph.ts";
import { isWeightFormat, rowsPerGroup } from "../quantization/formats.ts";
import { Resident } from "../resident.ts";
import { elementCount, formatShape, sameShape, type Shape } from "../shape.ts";
import { fillResident, Staging, type StoredPart } from "./fill_resident.ts";
import { findNonFinite } from "./non_finite.ts";
import { readRows } from "./read_rows.ts";
import { READ_FORMATS, storageOf, type WeightLayout } from "./storage.ts";
import type { TensorSource } from "./tensor_source.ts";

interface Declared {
  /** One tensor, or those that lie one after the other in one. */
  readonly parts: readonly StoredPart[];
  readonly resident: Resident;
}

/** The weights of one component: declared while its graphs are traced, uploaded once. */
export class Weights {
  readonly #source: TensorSource;
  readonly #declared = new Map<string, Declared>();
  readonly #staging = new Staging();
  /** Names of tensors that rows were read of. */
  readonly #consulted = new Set<string>();

  /** Nothing is read or allocated yet. */
  constructor(source: TensorSource) {
    this.#source = source;
  }

  /** The top of the name tree. */
  get root(): WeightScope {
    return new WeightScope(this, "");
  }

  /** All declared weights, in the order in which they were. */
  get residents(): IteratorObject<Resident> {
    return this.#declared.values().map(({ resident }) => resident);
  }

  /** Device memory of all declared weights, in bytes. */
  get byteLength(): number {
    return this.#declared.values().reduce((sum, { resident }) => sum + resident.byteLength, 0);
  }

  /** The storage format that holds most bytes, as the file names it (`BF16`). */
  get mainFormat(): string {
    const bytes = new Map<string, number>();
    for (const name of this.#source.names) {
      const { format, byteLength } = this.#source.find(name)!;
      bytes.set(format, (bytes.get(format) ?? 0) + byteLength);
    }
    return [...bytes].reduce((most, entry) => (entry[1] > most[1] ? entry : most), ["none", -1])[0];
  }

  /** Tensors on disk that nobody asked for. */
  get unused(): string[] {
    const used = new Set(this.#usedNames());
    return [...this.#source.names].filter((name) => !used.has(name));
  }

  /** The file or folder that they come from. */
  get path(): string {
    return this.#source.path;
  }

  /** The first used tensor that holds NaN or infinity, or nothing; reads all of them from disk. */
  findNonFinite(): string | undefined {
    return findNonFinite(this.#source, this.#usedNames());
  }

  *#usedNames(): Generator<string> {
    for (const { parts } of this.#declared.values()) yield* parts.map(({ name }) => name);
    yield* this.#consulted;
  }

  /** True when the checkpoint has a tensor of this name. */
  has(name: string): boolean {
    return this.#source.find(name) !== undefined;
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
    const dtype = this.#storage(name, shape, layout);
    const onDevice = layout === "channels-last" ? [shape[0]!, ...shape.slice(2), shape[1]!] : shape;
    return this.#declare(key, onDevice, dtype, [{ name, shape }], layout);
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
    const dtypes = parts.map(({ name, shape }) => this.#storage(name, shape, "as-stored"));
    const [dtype] = dtypes as [StorageFormat];
    if (dtypes.some((other) => other !== dtype)) return undefined;
    const last = parts[0]!.shape.at(-1)!;
    const counts = parts.map(({ shape }) => elementCount(shape) / last);
    const isWhole = isWeightFormat(dtype)
      ? this.#hasOneScale(parts) &&
        counts.every((count) => count % rowsPerGroup([1, last], dtype) === 0)
      : counts.every((count) => count * last * bytesPerElement(dtype) % 4 === 0);
    if (!isWhole) return undefined;
    const rows = counts.reduce((sum, count) => sum + count, 0);
    return this.#declare(key, [rows, last], dtype, parts, "as-stored");
  }

  #declare(
    key: string,
    shape: Shape,
    dtype: StorageFormat,
    parts: readonly StoredPart[],
    layout: WeightLayout,
  ): Resident {
    const name = parts.map((part) => part.name).join(" + ");
    const resident = new Resident(
      name,
      shape,
      dtype,
      (target) => fillResident(this.#source, target, parts, layout, this.#staging),
    );
    this.#declared.set(key, { parts, resident });
    return resident;
  }

  #hasOneScale(parts: readonly StoredPart[]): boolean {
    return new Set(parts.map(({ name }) => this.#source.find(name)!.scale ?? 1)).size === 1;
  }

  /**
   * Rows of a matrix by index, straight from disk: for embeddings, of which a prompt needs few.
   *
   * @param shape that the model expects, [N, C]
   * @param rows indices below N
   * @returns [rows, C]
   * @throws {SyntaxError} as {@linkcode Weights.declare}
   * @throws {RangeError} when the matrix has no such row
   */
  readRows(name: string, shape: Shape, rows: ArrayLike<number>): Float32Array<ArrayBuffer> {
    this.#storage(name, shape, "as-stored");
    this.#consulted.add(name);
    return readRows(this.#source, name, shape[1]!, rows);
  }

  /** How a tensor will be stored on the device, after checking that it is as the model expects. */
  #storage(name: string, shape: Shape, layout: WeightLayout): StorageFormat {
    const stored = this.#source.find(name);
    if (!stored) {
      throw new SyntaxError(
        `Cannot load "${this.path}": it lacks tensor "${name}" of shape ${
          formatShape(shape)
        }; weights and config.json belong to different models, or the download is incomplete`,
      );
    }
    if (!sameShape(withoutOnes(stored.shape), withoutOnes(shape))) {
      throw new SyntaxError(
        `Cannot load "${this.path}": tensor "${name}" has shape ${
          formatShape(stored.shape)
        }, its config asks for ${formatShape(shape)}; fetch weights and config.json again`,
      );
    }
    const format = storageOf(stored.format, shape, layout);
    if (!format) {
      throw new SyntaxError(
        `Cannot load "${this.path}": tensor "${name}" is stored as ${stored.format}, this program reads ${
          READ_FORMATS.join(", ")
        }; fetch the model in one of these`,
      );
    }
    return format;
  }

  /**
   * Allocates and uploads every declared weight that is wanted and not on the device already. When it fails, none of
   * these stays there.
   *
   * @param onProgress called with bytes done and bytes in all
   * @param wanted all of them when left out
   * @throws {OutOfMemoryError} when the device has no room
   * @throws {SyntaxError} when the files are no longer as long as they were
   */
  async upload(
    device: Device,
    onProgress?: (done: number, total: number) => void,
    wanted: Pick<ReadonlySet<Resident>, "has"> = { has: () => true },
  ): Promise<void> {
    const missing = [...this.residents].filter((weight) =>
      !weight.isAllocated && wanted.has(weight)
    );
    const total = missing.reduce((sum, { byteLength }) => sum + byteLength, 0);
    let done = 0;
    try {
      await device.guarded(() => {
        for (const weight of missing) {
          weight.allocate(device).fill();
          done += weight.byteLength;
          onProgress?.(done, total);
        }
        device.flush();
      });
    } catch (error) {
      for (const weight of missing) weight.destroy();
      throw error;
    }
  }

  /**
   * Frees the device memory of weights; those that are declared stay so.
   *
   * @param kept those that stay on the device; none when left out
   */
  destroy(kept: Pick<ReadonlySet<Resident>, "has"> = { has: () => false }): void {
    for (const { resident } of this.#declared.values()) {
      if (!kept.has(resident)) resident.destroy();
    }
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

/** Sizes that count: a convolution with one tap is a linear layer, and some files leave out leading ones. */
function withoutOnes(shape: Shape): Shape {
  return shape.filter((size) => size !== 1);
}
