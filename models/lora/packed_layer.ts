/** The low-rank branches of one product on the device: those of several LoRAs and layers side by side. */
import {
  type Device,
  type LinearSite,
  LowRankFactors,
  type LowRankProduct,
  type LowRankTensors,
} from "../../runtime/mod.ts";
import { elementsAs, toLowRank } from "./low_rank_form.ts";
import type { WeightChange } from "./types.ts";

/** A change that is computed beside its layer. */
export interface Branch {
  /** Which adapter it is of: a place in the list of strengths. */
  readonly lora: number;
  readonly change: WeightChange;
  readonly rank: number;
  /** First and number of the outputs of the product that it adds to. */
  readonly columns: readonly [start: number, count: number];
}

/** The low-rank branches of one product, side by side on the device. */
export class PackedLayer {
  readonly #factors: LowRankFactors;
  readonly #branches: readonly Branch[];

  /** Declares the tensors; nothing is allocated or computed. */
  constructor({ names, n, k, taps }: LinearSite, branches: readonly Branch[]) {
    this.#branches = branches;
    this.#factors = new LowRankFactors(
      { name: names.join("+"), n, k, taps },
      branches.map(({ change, rank, columns }) => productOf(change, rank, columns)),
    );
  }

  get tensors(): LowRankTensors {
    return this.#factors.tensors;
  }

  /** Device memory in bytes. */
  get byteLength(): number {
    return this.#factors.byteLength;
  }

  /** Bytes that {@linkcode PackedLayer.upload} needs to work in. */
  get scratchBytes(): number {
    return this.#factors.scratchBytes;
  }

  /** See {@linkcode LowRankFactors.upload}. */
  upload(device: Device, scratch: ArrayBuffer): void {
    this.#factors.upload(device, scratch);
  }

  /** Queues a write of the scales: the file's times the strength of each LoRA; 0 turns one off. */
  writeStrengths(strengths: readonly number[]): void {
    this.#factors.writeScales(
      this.#branches.map(({ lora, change }) => strengths[lora]! * change.scale),
    );
  }

  /** Frees the device memory. */
  destroy(): void {
    this.#factors.destroy();
  }
}

export function productOf(
  change: WeightChange,
  rank: number,
  rows: readonly [start: number, count: number],
): LowRankProduct {
  return {
    rank,
    rows,
    dtype: change.kind === "low-rank" && change.down.dtype === change.up.dtype
      ? change.down.dtype
      : "f32",
    factors(dtype) {
      const { down, up } = toLowRank(change);
      return { down: elementsAs(dtype, down), up: elementsAs(dtype, up) };
    },
  };
}
