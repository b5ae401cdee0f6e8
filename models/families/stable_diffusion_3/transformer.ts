/**
 * The diffusion transformer of Stable Diffusion 3 and 3.5, of blocks in which image and text attend each other.
 * Source: Esser et al. 2024, "Scaling Rectified Flow Transformers for High-Resolution Image Synthesis"; diffusers
 * `SD3Transformer2DModel`.
 */
import {
  concat,
  gather,
  type Graph,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import {
  attend,
  geluFeedForward,
  headProjections,
  OUT_MODULATION,
  type Projections,
} from "../../blocks/double_stream.ts";
import { linearLayer, linearLayers, patchEmbeddingLayer } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { TokenSplit } from "../../sharing/token_split.ts";
import { PATCH_SIDE, type Sd3TransformerConfig } from "./config.ts";
import {
  type BlockModulation,
  blockModulation,
  type ModulationTables,
  rowOf,
} from "./modulation.ts";

/** Epsilon of all norms; no configuration says it. */
const EPS = 1e-6;

const FEED_FORWARD = geluFeedForward(EPS);

interface Sd3Inputs extends ModulationTables {
  /** Prompt from `sd3Context()`: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Latents as patches, [1, tokens, (row, column, channel)]. */
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  /** Row of the tables of all timesteps, u32 [1]. */
  readonly step: Tensor;
  /** Blocks that leave the streams as they are. */
  readonly skipped?: readonly number[] | undefined;
  readonly ranks?: Ranks;
}

interface JointStreams {
  readonly image: Tensor;
  readonly text: Tensor;
}

/** What the text encoders give, [prompts, text tokens, joint_attention_dim], as the blocks take it. */
export function sd3Context(
  config: Sd3TransformerConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  return linearLayer(weights, "context_embedder", states, hiddenSize(config));
}

/** Predicts the velocity of the flow, as patches of the sample's order. */
export function sd3Transformer(
  graph: Graph,
  config: Sd3TransformerConfig,
  weights: WeightScope,
  { context, sample, grid, blocks, out, step, skipped = [], ranks = ALONE }: Sd3Inputs,
): Tensor {
  const dim = hiddenSize(config);
  const tokens = sample.dim(1);
  const split = new TokenSplit(ranks.sequence, [context.dim(1), tokens]);
  const layers = new LayerSplit(ranks.layers, blocks.map(() => 1));
  let streams: JointStreams = {
    text: split.own(context),
    image: embedded(graph, config, weights, split.own(sample), split.ownOf(places(config, grid))),
  };
  blocks.forEach((table, layer) => {
    streams = layers.run(layer, streams, (own) => {
      if (skipped.includes(layer)) return own;
      const block = weights.scope("transformer_blocks").scope(layer);
      const vectors = blockModulation(config, table, step, layer);
      return graph.scope(
        `transformer_blocks.${layer}`,
        () => jointBlock(config, block, own, vectors, split),
      );
    });
  });
  const result = split.gatherFirst(
    streams.image,
    { count: tokens, tokens },
    (x) =>
      linearLayer(weights, "proj_out", x, PATCH_SIDE ** 2 * config.out_channels, {
        norm: { eps: EPS, ...rowOf(out, step, dim)(OUT_MODULATION), name: "norm_out" },
      }),
  );
  return layers.share(result);
}

/** Rows of the square table of positions: its middle, of the size of the image. */
function places({ pos_embed_max_size: side }: Sd3TransformerConfig, grid: TokenGrid): number[] {
  const [top, left] = [grid.rows, grid.columns].map((count) => Math.floor((side - count) / 2)) as [
    number,
    number,
  ];
  return Array.from({ length: grid.rows * grid.columns }, (_, i) => {
    return (top + Math.floor(i / grid.columns)) * side + left + i % grid.columns;
  });
}

function embedded(
  graph: Graph,
  config: Sd3TransformerConfig,
  weights: WeightScope,
  patches: Tensor,
  places: readonly number[],
): Tensor {
  const { in_channels: channels, pos_embed_max_size: side } = config;
  const dim = hiddenSize(config);
  const own = weights.scope("pos_embed");
  const patch = [PATCH_SIDE, PATCH_SIDE];
  const x = patchEmbeddingLayer(own, "proj", patches, dim, { channels, patch });
  const table = own.tensor(graph, "pos_embed", [1, side ** 2, dim]).reshape(side ** 2, dim);
  const indices = graph.constant("places", [1, places.length], "u32", Uint32Array.from(places));
  return gather(table, indices, { addend: x });
}

/** x + gate · branch of the modulated norm of x, for each stream; the last block gives an image alone. */
function jointBlock(
  config: Sd3TransformerConfig,
  weights: WeightScope,
  { image, text }: JointStreams,
  { image: ofImage, self, text: ofText }: BlockModulation,
  split: TokenSplit,
): JointStreams {
  const attn = weights.scope("attn");
  const dim = image.dim(-1);
  const projected = (
    scope: WeightScope,
    x: Tensor,
    [layers, norms]: typeof TEXT_LAYERS | typeof IMAGE_LAYERS,
    { shift, scale }: { readonly shift: Tensor; readonly scale: Tensor },
  ): Projections => {
    const joined = linearLayers(scope, layers, x, dim, { norm: { eps: EPS, shift, scale } });
    return headProjections(
      { ...config, eps: EPS },
      scope,
      config.qk_norm ? norms : undefined,
      joined,
    );
  };
  const first = { shift: ofImage.shift_msa, scale: ofImage.scale_msa };
  const before = "shift" in ofText ? ofText : { shift: ofText.shift_msa, scale: ofText.scale_msa };
  const ours = projected(attn, image, IMAGE_LAYERS, first);
  const theirs = projected(attn, text, TEXT_LAYERS, before);
  const join = (i: 0 | 1 | 2) => concat([ours[i], theirs[i]], 1);
  const attended = attend([join(0), join(1), join(2)], split);
  const count = image.dim(1);
  let x = linearLayer(attn, "to_out.0", slice(attended, 1, 0, count), dim, {
    gate: ofImage.gate_msa,
    residual: image,
  });
  if (self) {
    const alone = weights.scope("attn2");
    const own = attend(projected(alone, image, IMAGE_LAYERS, self), split.like([count]));
    x = linearLayer(alone, "to_out.0", own, dim, { gate: self.gate, residual: x });
  }
  const result = FEED_FORWARD(weights.scope("ff"), x, ofImage);
  if ("shift" in ofText) return { image: result, text };
  const y = linearLayer(attn, "to_add_out", slice(attended, 1, count, attended.dim(1)), dim, {
    gate: ofText.gate_msa,
    residual: text,
  });
  return { image: result, text: FEED_FORWARD(weights.scope("ff_context"), y, ofText) };
}

const IMAGE_LAYERS = [["to_q", "to_k", "to_v"], ["norm_q", "norm_k"]] as const;
const TEXT_LAYERS = [
  ["add_q_proj", "add_k_proj", "add_v_proj"],
  ["norm_added_q", "norm_added_k"],
] as const;
