/** FLUX.1's blocks: double ones for text and image, then single ones over all tokens, attention beside feed-forward. */
import {
  concat,
  type Graph,
  type Rotation,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import {
  attend,
  doubleBlock,
  geluFeedForward,
  headProjections,
  type HeadsConfig,
  MLP_RATIO,
  type SINGLE_MODULATION,
  type StreamModulation,
  type Streams,
  type Vectors,
} from "../../blocks/double_stream.ts";
import { rotaryConstants } from "../../blocks/embeddings.ts";
import {
  embeddingLayers,
  gluLayer,
  linearLayer,
  linearLayers,
  packedGluLayer,
} from "../../blocks/layers.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import type { TokenSplit } from "../../sharing/token_split.ts";
import type { Flux1TransformerConfig } from "./config.ts";
import type { BlockModulation } from "./modulation.ts";
import { hiddenSize } from "../../config.ts";

/** Epsilon of the norms without weights and of those of heads; no configuration says it. */
export const EPS = 1e-6;
/** Base of the rotary frequencies; no config changes it. */
const ROPE_THETA = 10000;

export type Flux1Sizes = Pick<
  Flux1TransformerConfig,
  "num_attention_heads" | "attention_head_dim" | "axes_dims_rope"
>;

/** T5's states as the blocks take them, [prompts, text tokens, dim]. */
export function flux1Context(
  config: Flux1Sizes,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  return linearLayer(weights, "context_embedder", states, hiddenSize(config));
}

export interface PromptParts {
  /** [prompts, text tokens, dim] */
  readonly context: Tensor;
  /** Summary of the prompts for the modulation, [prompts, dim]. */
  readonly summary: Tensor;
}

/** What all steps take of the states of T5 and of what CLIP sums up, [prompts, pooled_projection_dim]. */
export function flux1Prompt(
  config: Flux1Sizes,
  weights: WeightScope,
  states: Tensor,
  pooled: Tensor,
): PromptParts {
  const embedder = weights.scope("time_text_embed").scope("text_embedder");
  return {
    context: flux1Context(config, weights, states),
    summary: embeddingLayers(embedder, pooled, hiddenSize(config)),
  };
}

/** What a block's feed-forward is activated by: GELU, or a gate beside it by SiLU, as in Ovis-Image. */
export type FeedForwardKind = "gelu" | "swiglu";

export class Flux1Blocks {
  readonly #split: TokenSplit;
  readonly #graph: Graph;
  readonly #heads: HeadsConfig;
  readonly #weights: WeightScope;
  readonly #modulation: BlockModulation;
  readonly #kind: FeedForwardKind;
  readonly #rotary: Streams<Rotation> & { readonly all: Rotation };

  constructor(
    graph: Graph,
    config: Flux1Sizes,
    weights: WeightScope,
    { textTokens, places, modulation, split, kind = "gelu" }: {
      readonly textTokens: number;
      /** Positions of all tokens, those of the text first. */
      readonly places: readonly number[][];
      readonly modulation: BlockModulation;
      readonly split: TokenSplit;
      readonly kind?: FeedForwardKind;
    },
  ) {
    const tables = (tokens: readonly number[][]) =>
      rotaryConstants(graph, "rope", tokens, config.axes_dims_rope, ROPE_THETA);
    this.#graph = graph;
    this.#heads = { ...config, eps: EPS };
    this.#weights = weights;
    this.#modulation = modulation;
    this.#split = split;
    this.#kind = kind;
    const text = split.ownOf(places.slice(0, textTokens));
    const image = split.ownOf(places.slice(textTokens));
    this.#rotary = { text: tables(text), image: tables(image), all: tables([...text, ...image]) };
  }

  double(streams: Streams<Tensor>, layer: number): Streams<Tensor> {
    return this.#graph.scope(`transformer_blocks.${layer}`, () => {
      const block = this.#weights.scope("transformer_blocks").scope(layer);
      const vectors = this.#modulation.double[layer]!;
      return doubleBlock(
        this.#heads,
        block,
        streams,
        vectors,
        this.#rotary,
        this.#kind === "gelu" ? geluFeedForward(EPS) : gatedFeedForward,
        this.#split,
      );
    });
  }

  single(x: Tensor, layer: number): Tensor {
    return this.#graph.scope(`single_transformer_blocks.${layer}`, () => {
      const block = this.#weights.scope("single_transformer_blocks").scope(layer);
      const vectors = this.#modulation.single[layer]!;
      const options = { rotary: this.#rotary.all, split: this.#split, kind: this.#kind };
      return singleBlock(this.#heads, block, x, vectors, options);
    });
  }
}

/** Where both are one layer, the gate's rows come last. */
const SILU_BEHIND = { activation: "silu", activated: "second" } as const;

function gatedFeedForward(
  weights: WeightScope,
  x: Tensor,
  { scale_mlp: scale, shift_mlp: shift, gate_mlp: gate }: StreamModulation,
): Tensor {
  const dim = x.dim(-1);
  const norm = { eps: EPS, scale, shift };
  const hidden = gluLayer(weights, ["net.0.gate", "net.0.up"], x, MLP_RATIO * dim, "silu", {
    norm,
  });
  return linearLayer(weights, "net.2", hidden, dim, { gate, residual: x });
}

/** x + gate · (attention and feed-forward of the modulated norm, side by side). */
function singleBlock(
  config: HeadsConfig,
  weights: WeightScope,
  x: Tensor,
  { scale, shift, gate }: Vectors<typeof SINGLE_MODULATION>,
  { rotary, split, kind }: {
    readonly rotary: Rotation;
    readonly split: TokenSplit;
    readonly kind: FeedForwardKind;
  },
): Tensor {
  const dim = x.dim(-1);
  const norm = { eps: EPS, scale, shift };
  const attn = weights.scope("attn");
  const joined = linearLayers(attn, ["to_q", "to_k", "to_v"], x, dim, { norm });
  const heads = headProjections(config, attn, ["norm_q", "norm_k"], joined, rotary);
  const attended = attend(heads, split);
  const wide = MLP_RATIO * dim;
  const hidden = kind === "gelu"
    ? linearLayer(weights, "proj_mlp", x, wide, { norm, activation: "gelu_tanh" })
    : packedGluLayer(weights, "proj_mlp", x, wide, { norm, ...SILU_BEHIND });
  return linearLayer(weights, "proj_out", concat([attended, hidden], -1), dim, {
    gate,
    residual: x,
  });
}

/**
 * (image, row, column) of all tokens: the text at 0, the result in image 0, an input image in image 1.
 * Source: diffusers `FluxPipeline` and `FluxKontextPipeline`, `_prepare_latent_image_ids`.
 */
export function positions(textTokens: number, grids: readonly TokenGrid[]): number[][] {
  const all = Array.from({ length: textTokens }, () => [0, 0, 0]);
  grids.forEach(({ rows, columns }, image) => {
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++) all.push([image, y, x]);
    }
  });
  return all;
}
