/** The block of Z-Image's transformer and of its ControlNets. Source: diffusers `ZImageTransformerBlock`. */
import {
  concat,
  gather,
  type Graph,
  rmsNorm,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { gatedBlock } from "../../blocks/gated_block.ts";
import { linearLayer, linearLayers } from "../../blocks/layers.ts";
import { ALL_TOKENS, type TokenSplit } from "../../sharing/token_split.ts";
import { hiddenFeatures, type ZImageTransformerConfig } from "./config.ts";
import type { BlockModulation } from "./modulation.ts";
import { paddedCount } from "./positions.ts";

/** Epsilon of the norms of queries and keys, whatever the configuration says of the others. */
const HEAD_EPS = 1e-5;

type BlockSizes = Pick<ZImageTransformerConfig, "dim" | "n_heads" | "norm_eps">;

/** Embeds patches of an image, and fills them up to [1, `paddedCount()`, dim]. */
export function embedImage(
  { dim }: Pick<ZImageTransformerConfig, "dim">,
  weights: WeightScope,
  sample: Tensor,
  embedder: { readonly weights: WeightScope; readonly name: string },
): Tensor {
  const { graph } = sample;
  const embedded = linearLayer(embedder.weights, embedder.name, sample, dim);
  const missing = paddedCount(sample.dim(1)) - sample.dim(1);
  const pad = weights.tensor(graph, "x_pad_token", [1, dim]);
  if (missing === 0) return embedded;
  const zeros = graph.constant("pad_rows", [1, missing], "u32", new Uint32Array(missing));
  return concat([embedded, gather(pad, zeros)], 1);
}

export function zImageBlock(
  config: BlockSizes,
  weights: WeightScope,
  x: Tensor,
  rotary: Rotation,
  modulation?: BlockModulation,
  split: TokenSplit = ALL_TOKENS,
): Tensor {
  return gatedBlock(weights, x, {
    eps: config.norm_eps,
    hidden: hiddenFeatures(config),
    attend: (h) => zImageAttention(config, weights.scope("attention"), h, rotary, split),
    modulation,
  });
}

function zImageAttention(
  { dim, n_heads: heads }: BlockSizes,
  weights: WeightScope,
  x: Tensor,
  rotary: Rotation,
  split: TokenSplit,
): Tensor {
  const tokens = x.dim(1);
  const headDim = dim / heads;
  const projected = linearLayers(weights, ["to_q", "to_k", "to_v"], x, dim);
  const both = slice(projected, 0, 0, 2).reshape(2, tokens, heads, headDim);
  const rotated = rmsNorm(both, {
    weight: normWeights(weights, x.graph, headDim),
    eps: HEAD_EPS,
    rotary: { ...rotary, hasHeadAxis: true },
    name: "norm_qk",
  });
  const attended = split.attention(
    slice(rotated, 0, 0, 1),
    slice(rotated, 0, 1, 2),
    slice(projected, 0, 2, 3).reshape(1, tokens, heads, headDim),
  ).reshape(1, tokens, dim);
  return linearLayer(weights, "to_out.0", attended, dim);
}

/** Norm weights of queries and keys, [2, headDim]. */
function normWeights(weights: WeightScope, graph: Graph, headDim: number): Tensor {
  const parts = ["norm_q.weight", "norm_k.weight"].map((name) => ({ name, shape: [headDim] }));
  return weights.stack(graph, parts) ??
    concat(parts.map(({ name, shape }) => weights.tensor(graph, name, shape).reshape(1, -1)), 0);
}
