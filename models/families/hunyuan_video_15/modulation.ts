/** The vectors of all timesteps: the layers that make them, a third of all weights, run once, before the first step. */
import {
  elementwise,
  gather,
  type Graph,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import {
  DOUBLE_MODULATION,
  OUT_MODULATION,
  type StreamModulation,
  type Streams,
  takeVectors,
  type Vectors,
} from "../../blocks/double_stream.ts";
import { timestepConstant } from "../../blocks/embeddings.ts";
import { embeddingLayers, linearLayer } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import type { HunyuanVideo15TransformerConfig } from "./config.ts";

const EMBEDDING_CHANNELS = 256;

export interface ModulationTables {
  /** Of each block, [timesteps, vectors · dim]. */
  readonly blocks: readonly { readonly image: Tensor; readonly text: Tensor }[];
  readonly out: Tensor;
  /** What the refiner of the text knows of the timesteps, [timesteps, dim]. */
  readonly refiner: Tensor;
}

/**
 * Of timesteps, 0 to 1000. `targets` says where each step goes, for a model that was distilled to few steps; the reference
 * tells it only where a video begins with an image.
 */
export function modulationTables(
  graph: Graph,
  config: HunyuanVideo15TransformerConfig,
  weights: WeightScope,
  timesteps: ArrayLike<number>,
  targets?: ArrayLike<number>,
): ModulationTables {
  const dim = hiddenSize(config);
  const embedded = (scope: WeightScope, times: ArrayLike<number>) =>
    embeddingLayers(scope, timestepConstant(graph, times, EMBEDDING_CHANNELS), dim);
  const embedder = weights.scope("time_embed");
  const own = embedded(embedder.scope("timestep_embedder"), timesteps);
  const target = targets && embedded(embedder.scope("timestep_embedder_r"), targets);
  const temb = target
    ? elementwise("act_silu(t + r)", { t: own, r: target }, { name: "temb" })
    : elementwise("act_silu(t)", { t: own }, { name: "temb" });
  const table = (scope: WeightScope, name: string, { length }: readonly string[]) =>
    linearLayer(scope, name, temb, length * dim);
  return {
    blocks: Array.from({ length: config.num_layers }, (_, layer) => {
      const block = weights.scope("transformer_blocks").scope(layer);
      return {
        image: table(block, "norm1.linear", DOUBLE_MODULATION),
        text: table(block, "norm1_context.linear", DOUBLE_MODULATION),
      };
    }),
    out: table(weights, "norm_out.linear", OUT_MODULATION),
    refiner: embedded(
      weights.scope("context_embedder").scope("time_text_embed").scope("timestep_embedder"),
      timesteps,
    ),
  };
}

interface StepModulation {
  readonly blocks: readonly Streams<StreamModulation>[];
  readonly out: Vectors<typeof OUT_MODULATION>;
  /** [1, dim] */
  readonly refiner: Tensor;
}

/** Those of a step, u32 [1]. */
export function stepModulation(
  { blocks, out, refiner }: ModulationTables,
  step: Tensor,
): StepModulation {
  const dim = refiner.dim(-1);
  const take = (table: Tensor) => takeVectors(gather(table, step).reshape(-1, 1, dim));
  return {
    blocks: blocks.map(({ image, text }) => ({
      image: take(image)(DOUBLE_MODULATION),
      text: take(text)(DOUBLE_MODULATION),
    })),
    out: take(out)(OUT_MODULATION),
    refiner: gather(refiner, step),
  };
}
