/** What is LongCat-Image's own around FLUX.1's blocks. Source: diffusers `LongCatImageTransformer2DModel`. */
import { elementwise, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import { embeddingLayers } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { positions } from "../flux1/blocks.ts";
import { type ModulationTables, timeTables } from "../flux1/modulation.ts";
import type { LongCatImageTransformerConfig } from "./config.ts";

/** The vectors of all timesteps, of their sinusoidal embedding: nothing of the prompt is among them. */
export function longCatImageTables(
  config: LongCatImageTransformerConfig,
  weights: WeightScope,
  embedded: Tensor,
): ModulationTables {
  const embedder = weights.scope("time_embed").scope("timestep_embedder");
  const temb = embeddingLayers(embedder, embedded, hiddenSize(config));
  const activated = elementwise("act_silu(t)", { t: temb }, { name: "temb" });
  return timeTables(config, weights, activated);
}

/** Images begin where the text's diagonal ends, the result first. */
export function longCatImagePlaces(textTokens: number, grids: readonly TokenGrid[]): number[][] {
  const text = Array.from({ length: textTokens }, (_, i) => [0, i, i]);
  const images = positions(0, grids).map((
    [image, row, column],
  ) => [1 + image!, textTokens + row!, textTokens + column!]);
  return [...text, ...images];
}
