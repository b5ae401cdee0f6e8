/** The low-rank branches of one product on the device: those of several LoRAs and layers side by side. */
import { type LinearSite, LowRankFactors, type LowRankProduct } from "../../runtime/mod.ts";
import { elementsAs, toLowRank } from "./low_rank_form.ts";
import type { WeightChange } from "./types.ts";

export interface Branch {
  readonly lora: number;
  readonly change: WeightChange;
  readonly rank: number;
  readonly columns: readonly [start: number, count: number];
}

export class PackedLayer extends LowRankFactors {
  readonly #branches: readonly Branch[];

  constructor({ names, n, k, taps }: LinearSite, branches: readonly Branch[]) {
    super(
      { name: names.join("+"), n, k, taps },
      branches.map(({ change, rank, columns }) => productOf(change, rank, columns)),
    );
    this.#branches = branches;
  }

  /** Queues a write of the scales: the file's times the strength of each LoRA; 0 turns one off. */
  writeStrengths(strengths: readonly number[]): void {
    this.writeScales(this.#branches.map(({ lora, change }) => strengths[lora]! * change.scale));
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
