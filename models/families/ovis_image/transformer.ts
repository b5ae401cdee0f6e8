/** What is Ovis-Image's own around FLUX.1's blocks. Source: diffusers `OvisImageTransformer2DModel`. */
import { elementwise, rmsNorm, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import { embeddingLayers } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { EPS, flux1Context, positions } from "../flux1/blocks.ts";
import { type ModulationTables, timeTables } from "../flux1/modulation.ts";
import type { OvisImageTransformerConfig } from "./config.ts";

/** The prompt as the blocks take it, of states, [1, tokens, joint_attention_dim]. */
export function ovisImageContext(
  config: OvisImageTransformerConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  const weight = weights.tensor(states.graph, "context_embedder_norm.weight", [states.dim(-1)]);
  const normed = rmsNorm(states, { weight, eps: EPS, name: "context_embedder_norm" });
  return flux1Context(config, weights, normed);
}

/** The vectors of all timesteps, of their sinusoidal embedding: nothing of the prompt is among them. */
export function ovisImageTables(
  config: OvisImageTransformerConfig,
  weights: WeightScope,
  embedded: Tensor,
): ModulationTables {
  const temb = embeddingLayers(weights.scope("timestep_embedder"), embedded, hiddenSize(config));
  const activated = elementwise("act_silu(t)", { t: temb }, { name: "temb" });
  return timeTables(config, weights, activated);
}

/** The text runs down the diagonal of the image. */
export function ovisImagePlaces(textTokens: number, grids: readonly TokenGrid[]): number[][] {
  const text = Array.from({ length: textTokens }, (_, i) => [0, i, i]);
  return [...text, ...positions(0, grids)];
}
