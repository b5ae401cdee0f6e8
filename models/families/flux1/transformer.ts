/**
 * The FLUX.1 diffusion transformer: double blocks, in which text and image have weights of their own and attend each
 * other, then single blocks over all tokens alike, with attention and feed-forward side by side.
 *
 * Source: Black Forest Labs 2024, FLUX.1; diffusers `FluxTransformer2DModel`, whose module names are the weight names.
 */
import {
  concat,
  type Graph,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import {
  attend,
  doubleBlock,
  headProjections,
  type HeadsConfig,
  type SINGLE_MODULATION,
  type StreamModulation,
  type Vectors,
} from "../../double_stream.ts";
import { rotaryConstants } from "../../embeddings.ts";
import { linearLayer, linearLayers } from "../../layers.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { type Flux1TransformerConfig, hiddenSize } from "./config.ts";
import type { Modulation } from "./modulation.ts";
import { positions } from "./positions.ts";

/** Of the norms without weights and of those of heads; no configuration says it. */
const EPS = 1e-6;
/** Of the rotary positions, likewise. */
const ROPE_THETA = 10000;
/** Channels inside of feed-forwards, in widths of the tokens. */
const MLP_RATIO = 4;

/** Inputs of one forward pass. */
interface Flux1Inputs {
  /** Of {@linkcode flux1Context} for one prompt: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Packed latents, [1, tokens, features]. */
  readonly sample: Tensor;
  /** What Fill takes beside each token of the sample, [1, tokens, in_channels - out_channels]. */
  readonly conditions?: Tensor | undefined;
  /** Packed latents of an input image. */
  readonly reference?: Tensor | undefined;
  /** How the tokens of the sample lie, then those of the input image. */
  readonly grids: readonly TokenGrid[];
  /** What the timestep makes of the blocks. */
  readonly modulation: Modulation;
}

/** What the blocks need to know of a model, FLUX.1 or one made of it. */
type Flux1Sizes = Pick<
  Flux1TransformerConfig,
  "num_attention_heads" | "attention_head_dim" | "axes_dims_rope"
>;

/**
 * What the blocks take of the prompt before they change it; it depends on no step.
 *
 * @param states of T5, [prompts, text tokens, joint_attention_dim]
 * @returns [prompts, text tokens, dim]
 */
export function flux1Context(
  config: Flux1Sizes,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  return linearLayer(weights, "context_embedder", states, hiddenSize(config));
}

/**
 * Predicts the velocity of the flow.
 *
 * @returns of the tokens of the sample, [1, tokens, features]
 */
export function flux1Transformer(
  graph: Graph,
  config: Flux1Sizes,
  weights: WeightScope,
  { context, sample, conditions, reference, grids, modulation }: Flux1Inputs,
): Tensor {
  const dim = hiddenSize(config);
  const heads = { ...config, eps: EPS };
  const textTokens = context.dim(1);
  const places = positions(textTokens, grids);
  const tables = (tokens: readonly number[][]) =>
    rotaryConstants(graph, "rope", tokens, config.axes_dims_rope, ROPE_THETA);
  const rotary = {
    text: tables(places.slice(0, textTokens)),
    image: tables(places.slice(textTokens)),
    all: tables(places),
  };
  const own = conditions ? concat([sample, conditions], -1) : sample;
  const tokens = reference ? concat([own, reference], 1) : own;
  let streams = { text: context, image: linearLayer(weights, "x_embedder", tokens, dim) };
  modulation.double.forEach((vectors, layer) => {
    streams = graph.scope(`transformer_blocks.${layer}`, () => {
      const block = weights.scope("transformer_blocks").scope(layer);
      return doubleBlock(heads, block, streams, vectors, rotary, feedForward);
    });
  });
  let x = concat([streams.text, streams.image], 1);
  modulation.single.forEach((vectors, layer) => {
    x = graph.scope(`single_transformer_blocks.${layer}`, () => {
      const block = weights.scope("single_transformer_blocks").scope(layer);
      return singleBlock(heads, block, x, vectors, rotary.all);
    });
  });
  const result = slice(x, 1, textTokens, textTokens + sample.dim(1));
  return linearLayer(weights, "proj_out", result, sample.dim(-1), {
    norm: { eps: EPS, ...modulation.out, name: "norm_out" },
  });
}

/** x + gate · MLP of the modulated norm. */
function feedForward(
  weights: WeightScope,
  x: Tensor,
  { scale_mlp: scale, shift_mlp: shift, gate_mlp: gate }: StreamModulation,
): Tensor {
  const dim = x.dim(-1);
  const hidden = linearLayer(weights, "net.0.proj", x, MLP_RATIO * dim, {
    norm: { eps: EPS, scale, shift },
    activation: "gelu_tanh",
  });
  return linearLayer(weights, "net.2", hidden, dim, { gate, residual: x });
}

/** x + gate · (attention and feed-forward of the modulated norm, side by side). */
function singleBlock(
  config: HeadsConfig,
  weights: WeightScope,
  x: Tensor,
  { scale, shift, gate }: Vectors<typeof SINGLE_MODULATION>,
  rotary: Rotation,
): Tensor {
  const dim = x.dim(-1);
  const norm = { eps: EPS, scale, shift };
  const attn = weights.scope("attn");
  const joined = linearLayers(attn, ["to_q", "to_k", "to_v"], x, dim, { norm });
  const attended = attend(headProjections(config, attn, ["norm_q", "norm_k"], joined, rotary));
  const hidden = linearLayer(weights, "proj_mlp", x, MLP_RATIO * dim, {
    norm,
    activation: "gelu_tanh",
  });
  return linearLayer(weights, "proj_out", concat([attended, hidden], -1), dim, {
    gate,
    residual: x,
  });
}
