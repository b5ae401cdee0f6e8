/**
 * The FLUX.2 diffusion transformer: double blocks, in which text and images have weights of their own and attend each
 * other, then single blocks over all tokens alike, with attention and feed-forward side by side.
 *
 * Source: Black Forest Labs 2025, FLUX.2; diffusers `Flux2Transformer2DModel`, whose module names are the weight names.
 */
import {
  attention,
  concat,
  elementwise,
  type Graph,
  rmsNorm,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { linearLayer, linearLayers } from "../../layers.ts";
import { type Flux2TransformerConfig, hiddenSize } from "./config.ts";
import { type Modulation, modulationVectors } from "./modulation.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { positions, rotaryConstants } from "./positions.ts";

/** Inputs of one forward pass. */
interface Flux2Inputs {
  /** Of {@linkcode flux2Context} for one prompt: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Normalised packed latents, [1, tokens, in_channels]. */
  readonly sample: Tensor;
  /** How they lie. */
  readonly grid: TokenGrid;
  /** Likewise of given images, one after the other, [1, their tokens, in_channels]; nothing without any. */
  readonly references?: Tensor | undefined;
  /** How those of each lie. */
  readonly referenceGrids: readonly TokenGrid[];
  /** One row of `modulationTable()`. */
  readonly modulation: Tensor;
}

/** Queries, keys and values, each [1, tokens, heads, headDim]. */
type Projections = readonly [query: Tensor, key: Tensor, value: Tensor];

/**
 * What the blocks take of the prompt before they change it; it depends on no step.
 *
 * @param states of the text encoder, [prompts, text tokens, joint_attention_dim]
 * @returns [prompts, text tokens, dim]
 */
export function flux2Context(
  config: Flux2TransformerConfig,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  return linearLayer(weights, "context_embedder", states, hiddenSize(config));
}

/**
 * Predicts the velocity of the flow.
 *
 * @returns of the tokens of the sample, [1, tokens, in_channels]
 */
export function flux2Transformer(
  graph: Graph,
  config: Flux2TransformerConfig,
  weights: WeightScope,
  { context, sample, grid, references, referenceGrids, modulation }: Flux2Inputs,
): Tensor {
  const dim = hiddenSize(config);
  const vectors = modulationVectors(modulation, dim);
  const textTokens = context.dim(1);
  const places = positions(textTokens, grid, referenceGrids);
  const rotary = {
    text: rotaryConstants(graph, config, places.slice(0, textTokens)),
    image: rotaryConstants(graph, config, places.slice(textTokens)),
    all: rotaryConstants(graph, config, places),
  };
  const tokens = references ? concat([sample, references], 1) : sample;
  let text = context;
  let image = linearLayer(weights, "x_embedder", tokens, dim);
  for (let layer = 0; layer < config.num_layers; layer++) {
    [text, image] = graph.scope(`transformer_blocks.${layer}`, () => {
      const block = weights.scope("transformer_blocks").scope(layer);
      return doubleBlock(config, block, text, image, vectors, rotary);
    });
  }
  let x = concat([text, image], 1);
  for (let layer = 0; layer < config.num_single_layers; layer++) {
    x = graph.scope(`single_transformer_blocks.${layer}`, () => {
      const block = weights.scope("single_transformer_blocks").scope(layer);
      return singleBlock(config, block, x, vectors.single, rotary.all);
    });
  }
  const result = slice(x, 1, textTokens, textTokens + sample.dim(1));
  return linearLayer(weights, "proj_out", result, config.in_channels, {
    norm: { eps: config.eps, ...vectors.out, name: "norm_out" },
  });
}

/** Joint attention, then a feed-forward for each stream; every branch is gated. */
function doubleBlock(
  config: Flux2TransformerConfig,
  weights: WeightScope,
  text: Tensor,
  image: Tensor,
  modulation: Modulation,
  rotary: Readonly<Record<"text" | "image", Rotation>>,
): [text: Tensor, image: Tensor] {
  const { eps } = config;
  const attn = weights.scope("attn");
  const project = (
    names: readonly string[],
    norms: readonly [query: string, key: string],
    x: Tensor,
    kind: "text" | "image",
  ): Projections => {
    const { scale_msa: scale, shift_msa: shift } = modulation[kind];
    const joined = linearLayers(attn, names, x, x.dim(-1), { norm: { eps, scale, shift } });
    const [query, key, value] = partsOf(config, joined);
    return [
      normalizeHeads(config, attn, norms[0], query!, rotary[kind]),
      normalizeHeads(config, attn, norms[1], key!, rotary[kind]),
      value!,
    ];
  };
  const own = project(["to_q", "to_k", "to_v"], ["norm_q", "norm_k"], image, "image");
  const other = project(
    ["add_q_proj", "add_k_proj", "add_v_proj"],
    ["norm_added_q", "norm_added_k"],
    text,
    "text",
  );
  const join = (i: 0 | 1 | 2) => concat([other[i], own[i]], 1);
  const attended = attend([join(0), join(1), join(2)]);
  const count = text.dim(1);
  const after = (
    name: string,
    x: Tensor,
    part: Tensor,
    { gate_msa: gate }: Modulation["image"],
  ) => linearLayer(attn, name, part, x.dim(-1), { gate, residual: x });
  const ownPart = slice(attended, 1, count);
  const otherPart = slice(attended, 1, 0, count);
  return [
    feedForward(
      config,
      weights.scope("ff_context"),
      after("to_add_out", text, otherPart, modulation.text),
      modulation.text,
    ),
    feedForward(
      config,
      weights.scope("ff"),
      after("to_out.0", image, ownPart, modulation.image),
      modulation.image,
    ),
  ];
}

/** x + gate · (silu(a) ∘ b) of the modulated norm, a the first half of `linear_in`. */
function feedForward(
  { eps, mlp_ratio }: Flux2TransformerConfig,
  weights: WeightScope,
  x: Tensor,
  { scale_mlp: scale, shift_mlp: shift, gate_mlp: gate }: Modulation["image"],
): Tensor {
  const dim = x.dim(-1);
  const inner = dim * mlp_ratio;
  const halves = linearLayer(weights, "linear_in", x, 2 * inner, {
    norm: { eps, scale, shift },
    parts: 2,
  });
  const hidden = gated(slice(halves, 0, 0, 1), slice(halves, 0, 1));
  return linearLayer(weights, "linear_out", hidden.reshape(...x.shape.with(-1, inner)), dim, {
    gate,
    residual: x,
  });
}

/** x + gate · (attention and feed-forward of the modulated norm, side by side). */
function singleBlock(
  config: Flux2TransformerConfig,
  weights: WeightScope,
  x: Tensor,
  { scale, shift, gate }: Modulation["single"],
  rotary: Rotation,
): Tensor {
  const { eps, mlp_ratio } = config;
  const dim = x.dim(-1);
  const attn = weights.scope("attn");
  // Parts of the model's width: queries, keys, values, then as many of each half of the feed-forward as it is wider.
  const parts = 3 + 2 * mlp_ratio;
  const joined = linearLayer(attn, "to_qkv_mlp_proj", x, parts * dim, {
    norm: { eps, scale, shift },
    parts,
  });
  const [query, key, value] = partsOf(config, slice(joined, 0, 0, 3));
  const attended = attend([
    normalizeHeads(config, attn, "norm_q", query!, rotary),
    normalizeHeads(config, attn, "norm_k", key!, rotary),
    value!,
  ]);
  const hidden = gated(
    slice(joined, 0, 3, 3 + mlp_ratio),
    slice(joined, 0, 3 + mlp_ratio, parts),
  );
  const hiddenParts = Array.from(
    { length: mlp_ratio },
    (_, i) => slice(hidden, 0, i, i + 1).reshape(...x.shape),
  );
  return linearLayer(attn, "to_out", concat([attended, ...hiddenParts], -1), dim, {
    gate,
    residual: x,
  });
}

/** silu(a) ∘ b. */
function gated(a: Tensor, b: Tensor): Tensor {
  return elementwise("act_silu(a) * b", { a, b }, { name: "swiglu" });
}

/** Attention of all tokens to all: [1, tokens, dim]. */
function attend([query, key, value]: Projections): Tensor {
  const result = attention(query, key, value);
  return result.reshape(result.dim(0), result.dim(1), -1);
}

/** [parts, 1, tokens, dim] as parts of [1, tokens, heads, headDim]. */
function partsOf(
  { num_attention_heads, attention_head_dim }: Flux2TransformerConfig,
  joined: Tensor,
): Tensor[] {
  const [parts, batch, tokens] = joined.shape as [number, number, number];
  return Array.from(
    { length: parts },
    (_, i) =>
      slice(joined, 0, i, i + 1).reshape(batch, tokens, num_attention_heads, attention_head_dim),
  );
}

/** RMS norm of every head of queries or keys, then its rotary position. */
function normalizeHeads(
  { eps }: Flux2TransformerConfig,
  weights: WeightScope,
  name: string,
  x: Tensor,
  rotary: Rotation,
): Tensor {
  const weight = weights.tensor(x.graph, `${name}.weight`, [x.dim(-1)]);
  return rmsNorm(x, { weight, eps, rotary: { ...rotary, hasHeadAxis: true }, name });
}
