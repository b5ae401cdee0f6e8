/** Shifts, scales and gates, which all blocks of a kind share; they are made once for all steps. */
import { concat, elementwise, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import {
  DOUBLE_MODULATION,
  OUT_MODULATION,
  SINGLE_MODULATION,
  type StreamModulation,
  takeVectors,
  type Vectors,
} from "../../blocks/double_stream.ts";
import { embeddingLayers, linearLayer } from "../../blocks/layers.ts";

const LAYERS = [
  { layer: "double_stream_modulation_img.linear", names: DOUBLE_MODULATION },
  { layer: "double_stream_modulation_txt.linear", names: DOUBLE_MODULATION },
  { layer: "single_stream_modulation.linear", names: SINGLE_MODULATION },
  { layer: "norm_out.linear", names: OUT_MODULATION },
] as const;

export const MODULATION_ROWS = LAYERS.reduce((sum, { names }) => sum + names.length, 0);

export interface Modulation {
  readonly image: StreamModulation;
  readonly text: StreamModulation;
  readonly single: Vectors<typeof SINGLE_MODULATION>;
  readonly out: Vectors<typeof OUT_MODULATION>;
}

/** What the blocks need of timesteps, and maybe of the guidance scale: [timesteps, {@linkcode MODULATION_ROWS} · dim]. */
export function modulationTable(
  weights: WeightScope,
  embedding: Tensor,
  dim: number,
  guidance?: Tensor,
): Tensor {
  const embedder = weights.scope("time_guidance_embed");
  let temb = embeddingLayers(embedder.scope("timestep_embedder"), embedding, dim);
  if (guidance) {
    const added = embeddingLayers(embedder.scope("guidance_embedder"), guidance, dim);
    temb = elementwise("t + g", { t: temb, g: added }, { name: "temb" });
  }
  const activated = elementwise("act_silu(t)", { t: temb });
  return concat(
    LAYERS.map(({ layer, names }) => linearLayer(weights, layer, activated, names.length * dim)),
    1,
    { name: "modulation" },
  );
}

export function modulationVectors(row: Tensor, dim: number): Modulation {
  const table = row.reshape(MODULATION_ROWS, 1, dim);
  const take = takeVectors(table);
  return {
    image: take(DOUBLE_MODULATION),
    text: take(DOUBLE_MODULATION),
    single: take(SINGLE_MODULATION),
    out: take(OUT_MODULATION),
  };
}
