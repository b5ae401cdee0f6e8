/** How weights differ from their files while LoRAs are in use. */
import { type DType, encodeElements } from "../dtype.ts";
import type { LowRankProduct, LowRankTensors } from "./low_rank_factors.ts";

/** Linear layers that take the same input, as a graph computes them: in one product. */
export interface LinearSite {
  /** Full names of the layers, without `.weight`. */
  readonly names: readonly string[];
  /** Outputs of all of them, each as many. */
  readonly n: number;
  /** Number of inputs. */
  readonly k: number;
  /**
   * Positions of a convolution that is computed as a product of whole patches; their channels come together, position
   * after position. 1 for what is a linear layer in the checkpoint.
   */
  readonly taps: number;
}

/** Gives the branch of a product, or nothing where it has none. */
export type LowRankSource = (site: LinearSite) => LowRankTensors | undefined;

/** A product at the strength at which it is added. */
export interface ScaledProduct extends LowRankProduct {
  /** What the product is multiplied with: the file's scale times the strength. */
  readonly scale: number;
}

/** What is made of a tensor every time it is read. */
export interface TensorRewrite {
  /** Equal keys mean equal results: what lies on the device already is not read again. */
  readonly key: string;
  /**
   * Alters whole rows in place.
   *
   * @param rows elements, row after row of the tensor seen as [first size, all others]
   * @param firstRow which of its rows the first one is
   */
  apply(rows: Float32Array<ArrayBuffer>, firstRow: number): void;
  /**
   * The same as products that are added to the tensor, in the order of its file, where it is nothing else: the device
   * adds them to what it has. Results may differ in what f32 rounds.
   */
  readonly products?: readonly ScaledProduct[];
}

/** Magnitudes from which on the nearest element is infinity. */
const OVERFLOW: Readonly<Partial<Record<DType, number>>> = {
  f16: 65520,
  bf16: 2 ** 127 * (2 - 2 ** -8),
  f32: Infinity,
};

/** To `values` from index `start` on, rounded to a float type; throws `RangeError` when that does not hold a result. */
export function rewriteElements(
  rewrite: TensorRewrite,
  name: string,
  values: Float32Array<ArrayBuffer>,
  start: number,
  rowLength: number,
  dtype: DType,
): Uint8Array<ArrayBuffer> {
  rewrite.apply(values, start / rowLength);
  const overflow = OVERFLOW[dtype]!;
  for (let i = 0; i < values.length; i++) {
    if (Math.abs(values[i]!) < overflow) continue;
    throw new RangeError(
      `Cannot write LoRAs into weight "${name}": element ${start + i} becomes ${
        values[i]
      }, which ${dtype} does not hold; use them without merging, or lower their strength`,
    );
  }
  return dtype === "f32" ? new Uint8Array(values.buffer) : encodeElements(values, dtype);
}
