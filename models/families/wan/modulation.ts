/** How the timestep reaches the blocks: adaLN with a learned table per block. */
import {
  concat,
  elementwise,
  gather,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { linearLayer } from "../../layers.ts";

/** temb [rows, dim] for the head, and its projection [rows, 6, dim] for the blocks. */
export function timeConditioning(
  weights: WeightScope,
  embedding: Tensor,
  dim: number,
): { temb: Tensor; modulation: Tensor } {
  const embedder = weights.scope("condition_embedder");
  const time = embedder.scope("time_embedder");
  const hidden = linearLayer(time, "linear_1", embedding, dim, { activation: "silu" });
  const temb = linearLayer(time, "linear_2", hidden, dim);
  const activated = elementwise("act_silu(t)", { t: temb });
  return {
    temb,
    modulation: linearLayer(embedder, "time_proj", activated, 6 * dim).reshape(-1, 6, dim),
  };
}

/** Rows of a block's `scale_shift_table`. */
export const BLOCK_MODULATION = [
  "shift_msa",
  "scale_msa",
  "gate_msa",
  "shift_ffn",
  "scale_ffn",
  "gate_ffn",
] as const;
/** Rows of the head's. */
export const HEAD_MODULATION = ["shift", "scale"] as const;

/**
 * The rows of a `scale_shift_table` added to the projected timestep. A vector is made where it is used, because
 * those that differ between tokens are large.
 *
 * @param timestep [rows, 1 or names, dim]
 * @param tokenRows u32 [batch, tokens], or nothing when all tokens of a sample have the same timestep
 * @returns by name, [rows, 1, dim], or [batch, tokens, dim]
 */
export function modulationVectors<Name extends string>(
  names: readonly Name[],
  weights: WeightScope,
  timestep: Tensor,
  tokenRows?: Tensor,
): (name: Name) => Tensor {
  const dim = timestep.dim(-1);
  const table = weights.tensor(timestep.graph, "scale_shift_table", [1, names.length, dim]);
  const modulation = elementwise("table + t", { table, t: timestep }, { name: "modulation" });
  return (name) => {
    const i = names.indexOf(name);
    const vector = slice(modulation, 1, i, i + 1, { name });
    return tokenRows ? gather(vector.reshape(-1, dim), tokenRows, { name }) : vector;
  };
}

/** Repeats a tensor with a leading 1 for every sample of a batch. */
export function forEachSample(x: Tensor, batch: number): Tensor {
  return x.dim(0) === batch ? x : concat(new Array<Tensor>(batch).fill(x), 0);
}
