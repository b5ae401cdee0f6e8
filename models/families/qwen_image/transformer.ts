/**
 * The Qwen-Image diffusion transformer: double blocks, in which text and images have weights of their own and attend
 * each other.
 *
 * Source: Qwen team 2025, "Qwen-Image Technical Report"; diffusers `QwenImageTransformer2DModel`, whose module names are
 * the weight names.
 */
import {
  concat,
  type Graph,
  rmsNorm,
  type Rotation,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { doubleBlock, type StreamModulation, type Streams } from "../../double_stream.ts";
import { linearLayer } from "../../layers.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { EPS, hiddenSize, type QwenImageSizes, type QwenImageTransformerConfig } from "./config.ts";
import { blockModulation, type ModulationTables, outModulation } from "./modulation.ts";
import { imagePositions, rotaryOf, textPositions } from "./positions.ts";

/** How its feed-forwards are called. */
const FEED_FORWARDS = { image: "img_mlp", text: "txt_mlp" };
/** How much wider the feed-forward is. */
const MLP_RATIO = 4;

/** Inputs of one forward pass. */
interface QwenImageInputs extends ModulationTables {
  /** Of {@linkcode qwenImageContext} for one prompt: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Latents as patches, [1, tokens, in_channels]: of an image, or of layers one after the other. */
  readonly sample: Tensor;
  /** How those of each lie. */
  readonly grids: readonly TokenGrid[];
  /** Likewise of given images, one after the other, [1, their tokens, in_channels]; nothing without any. */
  readonly references?: Tensor | undefined;
  /** How those of each lie. */
  readonly referenceGrids: readonly TokenGrid[];
  /** Row of the tables of all timesteps, u32 [1]. */
  readonly step: Tensor;
  /** What a ControlNet adds to the blocks: from what the block of an index gives to what the next one takes. */
  readonly control?: ((x: Tensor, block: number) => Tensor) | undefined;
}

/**
 * What the blocks take of the prompt before they change it; it depends on no step.
 *
 * @param states of the text encoder, [prompts, text tokens, joint_attention_dim]
 * @returns [prompts, text tokens, dim]
 */
export function qwenImageContext(
  graph: Graph,
  config: QwenImageSizes,
  weights: WeightScope,
  states: Tensor,
): Tensor {
  const normed = rmsNorm(states, {
    weight: weights.tensor(graph, "txt_norm.weight", [config.joint_attention_dim]),
    eps: EPS,
    name: "txt_norm",
  });
  return linearLayer(weights, "txt_in", normed, hiddenSize(config));
}

/**
 * Predicts the velocity of the flow.
 *
 * @returns patches as those of the sample, [1, tokens, in_channels]
 */
export function qwenImageTransformer(
  graph: Graph,
  config: QwenImageTransformerConfig,
  weights: WeightScope,
  inputs: QwenImageInputs,
): Tensor {
  const { context, sample, references, referenceGrids, blocks, out, step, control, ...own } =
    inputs;
  const grids = [...own.grids, ...referenceGrids];
  const areLayers = config.use_layer3d_rope;
  const places = imagePositions(grids, areLayers);
  const count = sample.dim(1);
  // Given images that go by a timestep of their own are a stream of their own.
  const isSplit = config.zero_cond_t && references !== undefined;
  const tokens = references && !isSplit ? concat([sample, references], 1) : sample;
  const rotary = {
    text: rotaryOf(graph, "text", config, textPositions(context.dim(1), grids, areLayers)),
    image: rotaryOf(graph, "image", config, places.slice(0, tokens.dim(1))),
    ...(isSplit && { reference: rotaryOf(graph, "reference", config, places.slice(count)) }),
  };
  const embed = (x: Tensor) => linearLayer(weights, "img_in", x, hiddenSize(config));
  let streams: Streams<Tensor> = {
    ...{ text: context, image: embed(tokens) },
    ...(isSplit && { reference: embed(references) }),
  };
  const clean = isSplit ? graph.constant("clean", [1], "u32", [out.dim(0) - 1]) : undefined;
  blocks.forEach((tables, layer) => {
    const vectors = blockModulation(tables, step, clean);
    streams = qwenImageBlock(graph, config, weights, { layer, streams, vectors, rotary });
    streams = { ...streams, image: control?.(streams.image, layer) ?? streams.image };
  });
  const result = slice(streams.image, 1, 0, count);
  return linearLayer(weights, "proj_out", result, config.in_channels, {
    norm: { eps: EPS, ...outModulation(out, step), name: "norm_out" },
  });
}

/** One of the blocks of a transformer, or of a ControlNet. */
export function qwenImageBlock(
  graph: Graph,
  config: QwenImageSizes,
  weights: WeightScope,
  { layer, streams, vectors, rotary }: {
    readonly layer: number;
    readonly streams: Streams<Tensor>;
    readonly vectors: Streams<StreamModulation>;
    readonly rotary: Streams<Rotation>;
  },
): Streams<Tensor> {
  return graph.scope(`transformer_blocks.${layer}`, () => {
    const block = weights.scope("transformer_blocks").scope(layer);
    const heads = { ...config, eps: EPS };
    return doubleBlock(heads, block, streams, vectors, rotary, feedForward, FEED_FORWARDS);
  });
}

/** x + gate · mlp(norm(x)). */
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
