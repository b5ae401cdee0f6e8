/** The factors of several low-rank products on the device, side by side: what they add to a matrix is one product. */
import type { Device } from "../device/device.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { roundUp } from "../shape.ts";
import { toChannelsLast } from "./storage.ts";

/** The tensors of a `LowRank` as they lie on the device. */
export interface LowRankTensors {
  /** Factor from inputs to ranks, packed. */
  readonly down: DeviceTensor;
  /** Ranks to outputs, packed. */
  readonly up: DeviceTensor;
  /** What each rank is multiplied with: strengths, f32. */
  readonly scales: DeviceTensor;
}

/** Types that factors may have. */
export type FactorType = "f32" | "f16" | "bf16";

/** Elements as they are stored: bits of the 16-bit types, or f32. */
export type StoredElements = Uint16Array | Float32Array;

/** up · down, which is added to some rows of a matrix [N, K]. */
export interface LowRankProduct {
  /** Columns of `up`, rows of `down`. */
  readonly rank: number;
  /** Type of both factors, or f32 where they have none in common. */
  readonly dtype: FactorType;
  /** Rows of the matrix that it is added to. */
  readonly rows: readonly [start: number, count: number];
  /** Down [rank, K] and up [count, rank] in a type: their own, or f32. */
  factors(dtype: FactorType): { readonly down: StoredElements; readonly up: StoredElements };
}

/** What the products are added to. */
export interface LowRankPlace {
  /** Name that the tensors' names begin with. */
  readonly name: string;
  /** Rows. */
  readonly n: number;
  /** Columns. */
  readonly k: number;
  /** The columns of factors are [channels, taps] and are brought into the order [taps, channels]; 1 leaves them. */
  readonly taps: number;
}

/**
 * The factors of several low-rank products, side by side on the device. Factors keep the 16-bit type that all of them have, and are f32 otherwise. Products for other
 * rows get rows of zeros in `up`.
 */
export class LowRankFactors {
  /** Down [R, K], up [N, R] and scales [R], with R a multiple of 4. */
  readonly tensors: LowRankTensors;
  readonly #place: LowRankPlace;
  readonly #products: readonly LowRankProduct[];
  readonly #dtype: FactorType;

  /** Declares the tensors; nothing is allocated or computed. */
  constructor(place: LowRankPlace, products: readonly LowRankProduct[]) {
    this.#place = place;
    this.#products = products;
    const rank = roundUp(products.reduce((sum, { rank }) => sum + rank, 0), 4);
    const types = new Set(products.map(({ dtype }) => dtype));
    this.#dtype = types.size === 1 ? [...types][0]! : "f32";
    const name = `low rank ${place.name}`;
    this.tensors = {
      down: new DeviceTensor(`${name} down`, [rank, place.k], this.#dtype),
      up: new DeviceTensor(`${name} up`, [place.n, rank], this.#dtype),
      scales: new DeviceTensor(`${name} scales`, [rank]),
    };
  }

  /** Device memory in bytes. */
  get byteLength(): number {
    const { down, up, scales } = this.tensors;
    return down.byteLength + up.byteLength + scales.byteLength;
  }

  /** Bytes that {@linkcode LowRankFactors.upload} needs to work in. */
  get scratchBytes(): number {
    const { down, up } = this.tensors;
    return Math.max(down.byteLength, up.byteLength);
  }

  /**
   * Allocates, and queues writes of the factors.
   *
   * @param scratch memory to work in
   * @throws {OutOfMemoryError} when the device has no room
   */
  upload(device: Device, scratch: ArrayBuffer): void {
    const { down, up, scales } = this.tensors;
    for (const tensor of [down, up, scales]) tensor.allocate(device);
    const rank = down.shape[0]!;
    const ElementArray = this.#dtype === "f32" ? Float32Array : Uint16Array;
    const { n, k, taps } = this.#place;
    const factors = this.#products.map((product) => product.factors(this.#dtype));
    const rows = new ElementArray(scratch, 0, rank * k).fill(0);
    let first = 0;
    for (const [i, { rank }] of this.#products.entries()) {
      const part = rows.subarray(first * k, (first + rank) * k);
      part.set(factors[i]!.down);
      if (taps > 1) toChannelsLast(part.slice(), part, k / taps, taps);
      first += rank;
    }
    down.writeBytes(new Uint8Array(scratch, 0, rows.byteLength));
    const columns = new ElementArray(scratch, 0, n * rank).fill(0);
    first = 0;
    for (const [i, product] of this.#products.entries()) {
      setColumns(columns, rank, first, product, factors[i]!.up);
      first += product.rank;
    }
    up.writeBytes(new Uint8Array(scratch, 0, columns.byteLength));
  }

  /** Queues a write of what each product is multiplied with; 0 turns one off. */
  writeScales(scales: readonly number[]): void {
    const tensor = this.tensors.scales;
    const values = new Float32Array(tensor.shape[0]!);
    let first = 0;
    for (const [i, { rank }] of this.#products.entries()) {
      values.fill(scales[i]!, first, first + rank);
      first += rank;
    }
    tensor.write(values);
  }

  /** Frees the device memory. */
  destroy(): void {
    for (const tensor of Object.values(this.tensors)) tensor.destroy();
  }
}

/** Puts `up` of one product into columns `first …` of the rows that it adds to. */
function setColumns(
  target: StoredElements,
  targetRank: number,
  first: number,
  { rank, rows: [start, count] }: LowRankProduct,
  up: StoredElements,
): void {
  if (rank === targetRank) return target.set(up, start * rank);
  for (let row = 0, from = 0; row < count; row++) {
    const to = (start + row) * targetRank + first;
    for (let i = 0; i < rank; i++) target[to + i] = up[from++]!;
  }
}
