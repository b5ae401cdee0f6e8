/**
 * The Lumina-Image 2.0 diffusion transformer: text and image are refined apart, then are one sequence for all layers.
 * Source: Qin et al. 2025, "Lumina-Image 2.0: A Unified and Efficient Image Generative Framework"; diffusers
 * `Lumina2Transformer2DModel`, whose module names are the weight names.
 */
import {
  concat,
  elementwise,
  gather,
  type Graph,
  rmsNorm,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { rotaryConstantsWithin, timestepConstant } from "../../blocks/embeddings.ts";
import { gatedBlock } from "../../blocks/gated_block.ts";
import { embeddingLayers, linearLayer, linearLayers } from "../../blocks/layers.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { ALL_TOKENS, TokenSplit } from "../../sharing/token_split.ts";
import { type BlockModulation, blockVectors, VECTORS } from "../z_image/modulation.ts";
import {
  hiddenFeatures,
  type Lumina2TransformerConfig,
  PATCH_SIDE,
  ROPE_THETA,
  timestepChannels,
} from "./config.ts";

const TIMESTEP_FREQUENCIES = 256;
const FINAL_EPS = 1e-6;
/** Epsilon of the norms of queries and keys, whatever the configuration says of the others. */
const HEAD_EPS = 1e-5;

interface Lumina2Inputs {
  /** Prompt from {@linkcode lumina2Context}: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Latents as patches, [1, tokens, features]. */
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  /** All timesteps from {@linkcode timestepTable}. */
  readonly times: Tensor;
  /** The row of `times`, u32 [1]. */
  readonly step: Tensor;
  readonly ranks?: Ranks;
}

interface Place {
  readonly rotary: Rotation;
  readonly split: TokenSplit;
}

/** The prompt as the layers take it, of states, [1, text tokens, cap_feat_dim]. */
export function lumina2Context(
  graph: Graph,
  config: Lumina2TransformerConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  const embedder = weights.scope("time_caption_embed").scope("caption_embedder");
  const normed = rmsNorm(states, {
    weight: embedder.tensor(graph, "0.weight", [config.cap_feat_dim]),
    eps: config.norm_eps,
    name: "caption_embedder",
  });
  let x = linearLayer(embedder, "1", normed, config.hidden_size);
  const rotary = positionTables(graph, "text", config, textPositions(states.dim(1)));
  for (let layer = 0; layer < config.num_refiner_layers; layer++) {
    x = graph.scope(`context_refiner.${layer}`, () => {
      const block = weights.scope("context_refiner").scope(layer);
      return lumina2Block(config, block, x, { rotary, split: ALL_TOKENS });
    });
  }
  return x;
}

/** What the blocks and the last norm take of timesteps, 0 for noise to 1: [timesteps, (4 · blocks + 1) · dim]. */
export function timestepTable(
  graph: Graph,
  config: Lumina2TransformerConfig,
  weights: WeightScope,
  timesteps: ArrayLike<number>,
): Tensor {
  const { hidden_size: dim, num_refiner_layers, num_layers } = config;
  const embedding = timestepConstant(graph, timesteps, TIMESTEP_FREQUENCIES);
  const embedder = weights.scope("time_caption_embed").scope("timestep_embedder");
  const temb = embeddingLayers(embedder, embedding, timestepChannels(config));
  const activated = elementwise("act_silu(t)", { t: temb });
  const rowsOf = (stack: string, count: number) =>
    Array.from({ length: count }, (_, i) => {
      const block = weights.scope(stack).scope(i);
      return linearLayer(block, "norm1.linear", activated, VECTORS * dim);
    });
  const blocks = [...rowsOf("noise_refiner", num_refiner_layers), ...rowsOf("layers", num_layers)];
  const out = linearLayer(weights, "norm_out.linear_1", activated, dim);
  return concat([...blocks, out], 1, { name: "modulation" });
}

/** Predicts the negated velocity of the flow, in patches like those of the sample, [1, tokens, features]. */
export function lumina2Transformer(
  graph: Graph,
  config: Lumina2TransformerConfig,
  weights: WeightScope,
  { context, sample, grid, times, step, ranks = ALONE }: Lumina2Inputs,
): Tensor {
  const { hidden_size: dim, num_refiner_layers: refiners, num_layers: layers } = config;
  const [textTokens, tokens] = [context.dim(1), tokenCount(grid)];
  const table = gather(times, step).reshape(-1, 1, dim);
  const vectors = blockVectors(table, 0, refiners + layers);
  const scale = slice(table, 0, VECTORS * (refiners + layers), table.dim(0), { name: "scale" });
  const split = new TokenSplit(ranks.sequence, [tokens]);
  const jointSplit = new TokenSplit(ranks.sequence, [textTokens, tokens]);
  const places = Array.from(
    { length: tokens },
    (_, i) => [textTokens, Math.floor(i / grid.columns), i % grid.columns],
  );
  const own = split.ownOf(places);
  const all = [...jointSplit.ownOf(textPositions(textTokens)), ...jointSplit.ownOf(places)];
  const image = { rotary: positionTables(graph, "image", config, own), split };
  const joint = { rotary: positionTables(graph, "joint", config, all), split: jointSplit };
  const shares = new LayerSplit(ranks.layers, vectors.map(() => 1));
  let x = linearLayer(weights, "x_embedder", split.own(sample), dim);
  vectors.forEach((modulation, i) => {
    const [stack, layer, place] = i < refiners
      ? ["noise_refiner", i, image] as const
      : ["layers", i - refiners, joint] as const;
    if (i === refiners) x = concat([jointSplit.own(context), x], 1);
    x = shares.run(i, x, (x) =>
      graph.scope(`${stack}.${layer}`, () => {
        const block = weights.scope(stack).scope(layer);
        return lumina2Block(config, block, x, place, modulation);
      }));
  });
  const result = jointSplit.gatherFirst(
    x,
    { offset: jointSplit.ownCount(textTokens), count: tokens, tokens },
    (x) =>
      linearLayer(weights, "norm_out.linear_2", x, PATCH_SIDE ** 2 * config.in_channels, {
        norm: { eps: FINAL_EPS, scale, name: "norm_out" },
      }),
  );
  return shares.share(result);
}

/** Blocks of text have no gates. */
function lumina2Block(
  config: Lumina2TransformerConfig,
  weights: WeightScope,
  x: Tensor,
  place: Place,
  modulation?: BlockModulation,
): Tensor {
  return gatedBlock(weights, x, {
    eps: config.norm_eps,
    hidden: hiddenFeatures(config),
    names: {
      norms: [modulation ? "norm1.norm" : "norm1", "norm2"],
      feedForward: ["linear_1", "linear_3", "linear_2"],
    },
    attend: (h) => lumina2Attention(config, weights.scope("attn"), h, place),
    modulation,
  });
}

/** Several queries attend with a key. */
function lumina2Attention(
  { hidden_size: dim, num_attention_heads: heads, num_kv_heads: keyHeads }:
    Lumina2TransformerConfig,
  weights: WeightScope,
  x: Tensor,
  { rotary, split }: Place,
): Tensor {
  const tokens = x.dim(1);
  const headDim = dim / heads;
  const placed = (name: string, projected: Tensor) =>
    rmsNorm(projected.reshape(1, tokens, -1, headDim), {
      weight: weights.tensor(x.graph, `${name}.weight`, [headDim]),
      eps: HEAD_EPS,
      rotary: { ...rotary, hasHeadAxis: true },
      name,
    });
  const query = placed("norm_q", linearLayer(weights, "to_q", x, dim));
  const keyValue = linearLayers(weights, ["to_k", "to_v"], x, keyHeads * headDim);
  const key = placed("norm_k", slice(keyValue, 0, 0, 1));
  const value = slice(keyValue, 0, 1, 2).reshape(1, tokens, keyHeads, headDim);
  const attended = split.attention(query, key, value).reshape(1, tokens, dim);
  return linearLayer(weights, "to_out.0", attended, dim);
}

function textPositions(tokens: number): number[][] {
  return Array.from({ length: tokens }, (_, place) => [place, 0, 0]);
}

/** Tokens of an image lie at (place in the text, row, column), behind the text. */
function positionTables(
  graph: Graph,
  name: string,
  { axes_dim_rope, axes_lens }: Lumina2TransformerConfig,
  tokens: readonly (readonly number[])[],
): Rotation {
  return rotaryConstantsWithin(axes_lens, graph, name, tokens, axes_dim_rope, ROPE_THETA);
}
