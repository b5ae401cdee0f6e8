/** Latents as tokens of 2 x 2; FLUX.2's are normalised. Source: diffusers `Flux2KleinPipeline`, `_patchify_latents`. */
import { elementwise, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import { rearrange } from "../../rearrange.ts";
import type { Flux2VaeConfig } from "./config.ts";

/** Latents along a side of a token. */
export const PACKED_SIDE = 2;
const PACKED = { i: PACKED_SIDE, j: PACKED_SIDE };

/** Latents, [1, height, width, channels], as [1, height/2 · width/2, 4·channels] of (channel, row, column). */
export function packLatents(latents: Tensor): Tensor {
  return rearrange(latents, "1 (y i) (x j) c -> 1 (y x) (c i j)", PACKED);
}

export function unpackLatents(tokens: Tensor, rows: number): Tensor {
  return rearrange(tokens, "1 (y x) (c i j) -> 1 (y i) (x j) c", { ...PACKED, y: rows });
}

/** Packed latents in the transformer's units: (z − mean) / √(variance + ε). */
export function normaliseTokens(
  config: Flux2VaeConfig,
  weights: WeightScope,
  tokens: Tensor,
): Tensor {
  return elementwise("(z - mean) / sqrt(variance + eps)", {
    z: tokens,
    ...statistics(config, weights, tokens),
  }, { scalars: { eps: config.batch_norm_eps }, name: "normalised tokens" });
}

export function denormaliseTokens(
  config: Flux2VaeConfig,
  weights: WeightScope,
  tokens: Tensor,
): Tensor {
  return elementwise("z * sqrt(variance + eps) + mean", {
    z: tokens,
    ...statistics(config, weights, tokens),
  }, { scalars: { eps: config.batch_norm_eps }, name: "latent tokens" });
}

function statistics(
  { latent_channels }: Flux2VaeConfig,
  weights: WeightScope,
  { graph }: Tensor,
): { mean: Tensor; variance: Tensor } {
  const norm = weights.scope("bn");
  const shape = [latent_channels * PACKED_SIDE ** 2];
  return {
    mean: norm.tensor(graph, "running_mean", shape),
    variance: norm.tensor(graph, "running_var", shape),
  };
}
