/**
 * The FLUX.2 diffusion transformer: double blocks, then single ones with attention and feed-forward side by side.
 * Source: Black Forest Labs 2025, FLUX.2; diffusers `Flux2Transformer2DModel`, whose module names are the weight names.
 */
import {
  concat,
  elementwise,
  type Graph,
  layerNorm,
  type LayerNormOptions,
  linear,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import {
  attend,
  doubleBlock,
  headProjections,
  type StreamModulation,
} from "../../blocks/double_stream.ts";
import { rotaryConstants } from "../../blocks/embeddings.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { linearLayer, packedGluLayer } from "../../blocks/layers.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { TokenSplit } from "../../sharing/token_split.ts";
import type { Flux2TransformerConfig } from "./config.ts";
import { type Modulation, modulationVectors } from "./modulation.ts";
import { hiddenSize } from "../../config.ts";

/** Weights of a double block, in those of a single one. */
const DOUBLE_SIZE = 2;

interface Flux2Inputs {
  /** Prompt from {@linkcode flux2Context}: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Normalised packed latents, [1, tokens, in_channels]. */
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  /** Packed latents of given images, one after the other, [1, their tokens, in_channels]; nothing without any. */
  readonly references?: Tensor | undefined;
  readonly referenceGrids: readonly TokenGrid[];
  /** One row of `modulationTable()`. */
  readonly modulation: Tensor;
  readonly ranks?: Ranks;
}

/** What the blocks take of the text encoder's states at first, [prompts, text tokens, dim]. */
export function flux2Context(
  config: Flux2TransformerConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  return linearLayer(weights, "context_embedder", states, hiddenSize(config));
}

/** Predicts the velocity of the flow, of the tokens of the sample: [1, tokens, in_channels]. */
export function flux2Transformer(
  graph: Graph,
  config: Flux2TransformerConfig,
  weights: WeightScope,
  { context, sample, grid, references, referenceGrids, modulation, ranks = ALONE }: Flux2Inputs,
): Tensor {
  const dim = hiddenSize(config);
  const vectors = modulationVectors(modulation, dim);
  const textTokens = context.dim(1);
  const places = positions(textTokens, grid, referenceGrids);
  const tables = (tokens: readonly number[][]) =>
    rotaryConstants(graph, "rope", tokens, config.axes_dims_rope, config.rope_theta);
  const tokens = references ? concat([sample, references], 1) : sample;
  const split = new TokenSplit(ranks.sequence, [textTokens, tokens.dim(1)]);
  const [text, image] = [places.slice(0, textTokens), places.slice(textTokens)].map((places) =>
    split.ownOf(places)
  ) as [number[][], number[][]];
  const rotary = { text: tables(text), image: tables(image), all: tables([...text, ...image]) };
  const { num_layers: doubles, num_single_layers: singles } = config;
  const layers = new LayerSplit(ranks.layers, [
    ...new Array<number>(doubles).fill(DOUBLE_SIZE),
    ...new Array<number>(singles).fill(1),
  ]);
  let streams = {
    text: split.own(context),
    image: linearLayer(weights, "x_embedder", split.own(tokens), dim),
  };
  for (let layer = 0; layer < doubles; layer++) {
    streams = layers.run(
      layer,
      streams,
      (streams) =>
        graph.scope(`transformer_blocks.${layer}`, () => {
          const block = weights.scope("transformer_blocks").scope(layer);
          return doubleBlock(config, block, streams, vectors, rotary, feedForward(config), split);
        }),
    );
  }
  let x = concat([streams.text, streams.image], 1);
  for (let layer = 0; layer < singles; layer++) {
    ({ x } = layers.run(
      doubles + layer,
      { x },
      ({ x }) =>
        graph.scope(`single_transformer_blocks.${layer}`, () => {
          const block = weights.scope("single_transformer_blocks").scope(layer);
          return { x: singleBlock(config, block, x, vectors.single, rotary.all, split) };
        }),
    ));
  }
  const result = split.gatherFirst(
    x,
    { offset: text.length, count: sample.dim(1), tokens: tokens.dim(1) },
    (x) =>
      linearLayer(weights, "proj_out", x, config.in_channels, {
        norm: { eps: config.eps, ...vectors.out, name: "norm_out" },
      }),
  );
  return layers.share(result);
}

/** x + gate · (silu(a) ∘ b) of the modulated norm, a the first half of `linear_in`. */
function feedForward({ eps, mlp_ratio }: Flux2TransformerConfig) {
  return (
    weights: WeightScope,
    x: Tensor,
    { scale_mlp: scale, shift_mlp: shift, gate_mlp: gate }: StreamModulation,
  ): Tensor => {
    const dim = x.dim(-1);
    const hidden = packedGluLayer(weights, "linear_in", x, dim * mlp_ratio, {
      norm: { eps, scale, shift },
      activation: "silu",
      activated: "first",
    });
    return linearLayer(weights, "linear_out", hidden, dim, { gate, residual: x });
  };
}

/** x + gate · (attention and feed-forward of the modulated norm, side by side). */
function singleBlock(
  config: Flux2TransformerConfig,
  weights: WeightScope,
  x: Tensor,
  { scale, shift, gate }: Modulation["single"],
  rotary: Rotation,
  split: TokenSplit,
): Tensor {
  const attn = weights.scope("attn");
  const norm = { eps: config.eps, scale, shift };
  const { heads, hidden } = projectAtOnce(config, attn, x, norm) ??
    projectInParts(config, attn, x, norm);
  const projected = headProjections(config, attn, ["norm_q", "norm_k"], heads, rotary);
  const attended = attend(projected, split);
  return linearLayer(attn, "to_out", concat([attended, ...hidden], -1), x.dim(-1), {
    gate,
    residual: x,
  });
}

interface SingleProjections {
  /** Queries, keys and values, [3, ...x]. */
  readonly heads: Tensor;
  readonly hidden: readonly Tensor[];
}

const SINGLE_LAYER = "to_qkv_mlp_proj";

function projectAtOnce(
  { mlp_ratio }: Flux2TransformerConfig,
  weights: WeightScope,
  x: Tensor,
  norm: LayerNormOptions,
): SingleProjections | undefined {
  if (x.graph.target.schedule !== "gpu" || weights.has(`${SINGLE_LAYER}.bias`)) return undefined;
  const dim = x.dim(-1);
  const [own, gated] = [3 * dim, 2 * mlp_ratio * dim];
  const n = own + gated;
  if (weights.lowRank(x.graph, { names: [SINGLE_LAYER], n, k: dim, taps: 1 })) return undefined;
  const weight = weights.tensor(x.graph, `${SINGLE_LAYER}.weight`, [n, dim]);
  const [first, second] = [weight.range(0, [own, dim]), weight.range(own * dim, [gated, dim])];
  if (!first || !second) return undefined;
  const normed = layerNorm(x, norm);
  return {
    heads: linear(normed, first, { parts: 3, name: SINGLE_LAYER }),
    hidden: [linear(normed, second, { activation: "silu", glu: "first", name: "swiglu" })],
  };
}

function projectInParts(
  { mlp_ratio }: Flux2TransformerConfig,
  weights: WeightScope,
  x: Tensor,
  norm: LayerNormOptions,
): SingleProjections {
  // Parts of the model's width: queries, keys, values, then as many of each half of the feed-forward as it is wider.
  const parts = 3 + 2 * mlp_ratio;
  const joined = linearLayer(weights, SINGLE_LAYER, x, parts * x.dim(-1), { norm, parts });
  const [a, b] = [slice(joined, 0, 3, 3 + mlp_ratio), slice(joined, 0, 3 + mlp_ratio, parts)];
  const hidden = elementwise("act_silu(a) * b", { a, b }, { name: "swiglu" });
  return {
    heads: slice(joined, 0, 0, 3),
    hidden: Array.from(
      { length: mlp_ratio },
      (_, i) => slice(hidden, 0, i, i + 1).reshape(...x.shape),
    ),
  };
}

/** Distance between input images along the first axis. */
const IMAGE_STEP = 10;

/**
 * (image, row, column, place in the text) of all tokens: text and result at image 0, input images at 10, 20, …
 * Source: diffusers `Flux2KleinPipeline`, `_prepare_text_ids`, `_prepare_latent_ids` and `_prepare_image_ids`.
 */
export function positions(
  textTokens: number,
  result: TokenGrid,
  references: readonly TokenGrid[],
): number[][] {
  const all = Array.from({ length: textTokens }, (_, place) => [0, 0, 0, place]);
  [result, ...references].forEach(({ rows, columns }, image) => {
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++) all.push([IMAGE_STEP * image, y, x, 0]);
    }
  });
  return all;
}
