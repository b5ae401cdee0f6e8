/** From stored tensors to tensors on the device, by ranges: no tensor is ever whole in JavaScript memory. */
import type { Device } from "../device/device.ts";
import { bytesPerElement, type DType, type StorageFormat } from "../dtype.ts";
import { takesMerge } from "../ops/merge/mod.ts";
import { isWeightFormat, rowsPerGroup } from "../quantization/formats.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { elementCount, formatShape, sameShape, type Shape } from "../shape.ts";
import type { LinearSite, LowRankSource, TensorRewrite } from "./adaptation.ts";
import { fillWeight, findNonFinite, readRows, Staging, type StoredPart } from "./fill_weight.ts";
import type { LowRankTensors } from "./low_rank_factors.ts";
import { type DeviceMerge, mergeOnDevice } from "./merge_on_device.ts";
import {
  blockFormatOf,
  elementTypeOf,
  READ_FORMATS,
  storageOf,
  type WeightLayout,
} from "./storage.ts";
import { storedBytes, type TensorSource } from "./container.ts";
import { WeightScope } from "./weight_scope.ts";

interface Declared {
  /** One tensor, or those that lie one after the other in one. */
  readonly parts: readonly StoredPart[];
  readonly layout: WeightLayout;
  readonly tensor: DeviceTensor;
}

/** How what is stored in blocks lies on the device while it is altered: rounding to blocks again is not exact. */
const ALTERED_TYPE: DType = "f16";

const NONE: ReadonlyMap<string, TensorRewrite> = new Map();

/** Elements that are decoded at a time. */
const DECODED_ELEMENTS = 2 ** 21;

/** The weights of one component: declared while its graphs are traced, uploaded once. */
export class Weights {
  readonly #source: TensorSource;
  readonly #declared = new Map<string, Declared>();
  /** Declarations that take the place of those of the same keys. */
  readonly #altered = new Map<string, Declared>();
  readonly #staging = new Staging();
  /** Names of tensors that rows were read of. */
  readonly #consulted = new Set<string>();
  #lowRank: LowRankSource | undefined;
  #rewrites: ReadonlyMap<string, TensorRewrite> = new Map();
  /** While weights are filled as their files have them, whatever the rewrites say. */
  #isPlain = false;
  /** Keys of the rewrites that weights were filled with, by tensor; nothing where that is not known. */
  readonly #written = new Map<string, string | undefined>();

  /** Nothing is read or allocated yet. */
  constructor(source: TensorSource) {
    this.#source = source;
  }

  /** The top of the name tree. */
  get root(): WeightScope {
    return new WeightScope(this, "");
  }

  /** All declared weights, in the order in which they were, and what is altered in place of some. */
  get deviceTensors(): IteratorObject<DeviceTensor> {
    return Iterator.from([...this.#declared.values(), ...this.#altered.values()])
      .map(({ tensor }) => tensor);
  }

  /** Device memory of all of them, in bytes. */
  get byteLength(): number {
    return this.deviceTensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** All tensors of the files, whether a graph asked for them or not. */
  *tensors(): Generator<StoredPart & { readonly isQuantised: boolean }> {
    for (const name of this.#source.names) {
      const { shape, format } = this.#source.find(name)!;
      yield { name, shape, isQuantised: blockFormatOf(format) !== undefined };
    }
  }

  /** The storage format that holds most bytes, as the file names it (`BF16`). */
  get mainFormat(): string {
    const bytes = new Map<string, number>();
    for (const name of this.#source.names) {
      const tensor = this.#source.find(name)!;
      const format = tensor.storedAs ?? tensor.format;
      bytes.set(format, (bytes.get(format) ?? 0) + storedBytes(tensor));
    }
    return [...bytes].reduce((most, entry) => (entry[1] > most[1] ? entry : most), ["none", -1])[0];
  }

  /** Size of all tensors on disk, in bytes. */
  get storedBytes(): number {
    let bytes = 0;
    for (const name of this.#source.names) bytes += storedBytes(this.#source.find(name)!);
    return bytes;
  }

  /** Tensors on disk that nobody asked for. */
  get unused(): string[] {
    const used = new Set(this.#usedNames());
    return [...this.#source.names].filter((name) => !used.has(name));
  }

  /**
   * Refuses weights that go on where the blocks that graphs asked for end: their configuration says fewer than there are.
   *
   * @throws {SyntaxError} naming the first such block
   */
  refuseMoreBlocks(): void {
    const used = new Set(this.#usedNames());
    const unused = this.unused.find((name) => {
      const [, before, number, rest] = /^(.*?(?:blocks|layers)\.)(\d+)(\..*)$/.exec(name) ?? [];
      return Number(number) > 0 && used.has(`${before}${Number(number) - 1}${rest}`);
    });
    if (unused === undefined) return;
    throw new SyntaxError(
      `Cannot load "${this.path}": it has "${unused}", one block more than its configuration says; ` +
        "fetch weights and config.json again",
    );
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
  declare(name: string, shape: Shape, layout: WeightLayout = "as-stored"): DeviceTensor {
    const key = `${layout} ${name}`;
    const known = this.#altered.get(key) ?? this.#declared.get(key);
    if (known) return known.tensor;
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
  declareStack(parts: readonly StoredPart[]): DeviceTensor | undefined {
    const key = parts.map(({ name }) => name).join(" + ");
    const known = this.#altered.get(key) ?? this.#declared.get(key);
    if (known) return known.tensor;
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
  ): DeviceTensor {
    const declared = this.#describe(shape, dtype, parts, layout);
    this.#declared.set(key, declared);
    return declared.tensor;
  }

  #describe(
    shape: Shape,
    dtype: StorageFormat,
    parts: readonly StoredPart[],
    layout: WeightLayout,
  ): Declared {
    const name = parts.map((part) => part.name).join(" + ");
    const [source, staging] = [this.#source, this.#staging];
    const tensor = new DeviceTensor(name, shape, dtype, (target) => {
      const rewrites = this.#isPlain ? NONE : this.#rewrites;
      fillWeight({ source, rewrites, staging }, target, parts, layout);
    });
    return { parts, layout, tensor };
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
    const [, columns] = shape as [number, number];
    const values = readRows(this.#source, name, columns, rows);
    const rewrite = this.#rewrites.get(name);
    for (let i = 0; rewrite && i < rows.length; i++) {
      rewrite.apply(values.subarray(i * columns, (i + 1) * columns), rows[i]!);
    }
    return values;
  }

  /** A tensor as its file has it, decoded chunk by chunk: rows of [first size, all others]. */
  *storedRows(name: string): Generator<{ rows: Float32Array<ArrayBuffer>; firstRow: number }> {
    const { shape } = this.#source.find(name)!;
    const length = elementCount(shape) / shape[0]!;
    const step = Math.max(1, Math.floor(DECODED_ELEMENTS / length));
    for (let firstRow = 0; firstRow < shape[0]!; firstRow += step) {
      const count = Math.min(step, shape[0]! - firstRow);
      const indices = Array.from({ length: count }, (_, i) => firstRow + i);
      yield { rows: readRows(this.#source, name, length, indices), firstRow };
    }
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
   * @param wanted all of them by default
   * @throws {OutOfMemoryError} when the device has no room
   * @throws {SyntaxError} when the files are no longer as long as they were
   */
  async upload(
    device: Device,
    onProgress?: (done: number, total: number) => void,
    wanted: Pick<ReadonlySet<DeviceTensor>, "has"> = { has: () => true },
  ): Promise<void> {
    const missing = [...this.deviceTensors].filter((weight) =>
      !weight.isAllocated && wanted.has(weight)
    );
    const total = missing.reduce((sum, { byteLength }) => sum + byteLength, 0);
    let done = 0;
    try {
      await device.guarded(() => {
        // What the driver copies from lies behind all of them then, not in gaps between, which nothing else fills.
        for (const weight of missing) weight.allocate(device);
        for (const weight of missing) {
          weight.fill();
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
   * Says how the weights differ from those of the files from now on. What lies on the device already is filled again,
   * from the files, where it differs from before, and the device adds what are products; what is stored in blocks gets a
   * decoded weight in its place, which graphs that are traced from now on use. Graphs that use one that is no longer
   * altered must be gone.
   *
   * When it fails, some weights are altered and others not, until it is called again.
   *
   * @param rewrites by full tensor name
   * @throws {OutOfMemoryError} when the device has no room for decoded weights
   * @throws {RangeError} when the type of a weight does not hold what is made of an element
   * @throws {SyntaxError} when the files are no longer as long as they were
   */
  async rewrite(rewrites: ReadonlyMap<string, TensorRewrite>, device: Device): Promise<void> {
    this.#rewrites = rewrites;
    this.#releaseAltered((name) => !rewrites.has(name));
    const keyOf = (name: string) => rewrites.get(name)?.key ?? "";
    const changed = [...new Set([...this.#written.keys(), ...rewrites.keys()])].filter((name) =>
      keyOf(name) !== (this.#written.has(name) ? this.#written.get(name) : "")
    );
    const known = new Set(this.#written.keys());
    for (const name of changed) this.#written.set(name, undefined);
    const isChanged = new Set(changed);
    const merges: DeviceMerge[] = [];
    try {
      await device.guarded(() => {
        for (const [key, weight] of this.#declared) {
          if (!weight.parts.some(({ name }) => isChanged.has(name))) continue;
          const tensor = this.#alteredPlace(key, weight, device);
          if (isWeightFormat(tensor.dtype)) continue;
          tensor.sourceChanged();
          if (!tensor.isAllocated) continue;
          const own = this.#mergesOf(tensor, weight);
          if (!own) tensor.fill();
          else {
            if (weight.parts.some(({ name }) => known.has(name))) this.#fillPlain(tensor);
            merges.push(...own);
          }
        }
        device.flush();
      });
      const failed = await mergeOnDevice(merges, device);
      await device.guarded(() => {
        for (const tensor of failed) tensor.fill();
        device.flush();
      });
    } catch (error) {
      this.#releaseAltered((name) => isChanged.has(name));
      throw error;
    }
    for (const name of changed) {
      if (rewrites.has(name)) this.#written.set(name, keyOf(name));
      else this.#written.delete(name);
    }
  }

  /** What the device has to add to a weight as it is in the files, or nothing where that is not all. */
  #mergesOf(tensor: DeviceTensor, { parts, layout }: Declared): DeviceMerge[] | undefined {
    if (tensor.isPinned) return undefined;
    const merges: DeviceMerge[] = [];
    let elements = 0;
    for (const { name, shape } of parts) {
      const [rows] = shape as [number];
      const columns = elementCount(shape) / rows;
      const firstRow = elements / columns;
      elements += rows * columns;
      const rewrite = this.#rewrites.get(name);
      if (!rewrite) continue;
      const { products } = rewrite;
      const isAsStored = elementTypeOf(this.#source.find(name)!.format) === tensor.dtype;
      if (!products || !isAsStored || !takesMerge(tensor.dtype, columns)) return undefined;
      const taps = layout === "channels-last" ? elementCount(shape.slice(2)) : 1;
      merges.push({ tensor, firstRow, rows, columns, taps, products });
    }
    return merges;
  }

  #fillPlain(tensor: DeviceTensor): void {
    this.#isPlain = true;
    try {
      tensor.fill();
    } finally {
      this.#isPlain = false;
    }
  }

  /** What is filled in place of a weight: itself, or a decoded one while a part of it is altered. */
  #alteredPlace(key: string, weight: Declared, device: Device): DeviceTensor {
    const { parts, layout, tensor: { shape, dtype, isAllocated } } = weight;
    const isRewritten = parts.some(({ name }) => this.#rewrites.has(name));
    if (!isWeightFormat(dtype) || !isRewritten) return weight.tensor;
    const altered = this.#altered.get(key) ??
      this.#describe(shape, ALTERED_TYPE, parts, layout);
    this.#altered.set(key, altered);
    return isAllocated ? altered.tensor.allocate(device) : altered.tensor;
  }

  /** Frees those in place of others whose parts all pass. */
  #releaseAltered(isReleased: (name: string) => boolean): void {
    for (const [key, { parts, tensor }] of this.#altered) {
      if (!parts.every(({ name }) => isReleased(name))) continue;
      tensor.destroy();
      this.#altered.delete(key);
    }
  }

  /** The weights that are not, or not only, what the files hold. */
  *altered(): Generator<DeviceTensor> {
    for (const [key, { parts, tensor }] of this.#declared) {
      if (!parts.some(({ name }) => this.#rewrites.has(name))) continue;
      yield this.#altered.get(key)?.tensor ?? tensor;
    }
  }

  /** Says where the branches of the products come from that are traced from now on. */
  useLowRank(source: LowRankSource): void {
    this.#lowRank = source;
  }

  /** The branch of a product, or nothing. */
  lowRank(site: LinearSite): LowRankTensors | undefined {
    return this.#lowRank?.(site);
  }

  /**
   * Frees the device memory of weights; those that are declared stay so.
   *
   * @param kept those that stay on the device; none by default
   */
  destroy(kept: Pick<ReadonlySet<DeviceTensor>, "has"> = { has: () => false }): void {
    for (const tensor of this.deviceTensors) {
      if (!kept.has(tensor)) tensor.destroy();
    }
  }
}

/** Sizes that count: a convolution with one tap is a linear layer, and some files leave out leading ones. */
function withoutOnes(shape: Shape): Shape {
  return shape.filter((size) => size !== 1);
}
