/**
 * HunyuanVideo 1.5's diffusion transformer, of double blocks.
 * Source: Tencent 2025, "HunyuanVideo 1.5 Technical Report"; diffusers `HunyuanVideo15Transformer3DModel`, whose module names
 * are the weight names.
 */
import {
  concat,
  type Graph,
  type Rotation,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { doubleBlock, geluFeedForward, type Streams } from "../../blocks/double_stream.ts";
import { type RotaryTables, rotaryTables } from "../../blocks/embeddings.ts";
import { linearLayer, patchEmbeddingLayer } from "../../blocks/layers.ts";
import { hiddenSize } from "../../config.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { TokenSplit } from "../../sharing/token_split.ts";
import { EPS, type HunyuanVideo15TransformerConfig } from "./config.ts";
import { type PromptStates, refinedText } from "./context.ts";
import { type ModulationTables, stepModulation } from "./modulation.ts";

/** Latents of a video along its sides. */
export interface VideoGrid {
  readonly frames: number;
  readonly height: number;
  readonly width: number;
}

interface HunyuanVideo15Inputs extends PromptStates, ModulationTables {
  /** Tokens of an image and of glyphs, before those of the text; each [1, tokens, dim]. */
  readonly others: readonly Tensor[];
  /** Latents, [1, tokens, out_channels]. */
  readonly sample: Tensor;
  /** Beside each token its latents in a given image, and whether there are any, [1, tokens, out_channels + 1]; 0 by default. */
  readonly given?: Tensor | undefined;
  readonly grid: VideoGrid;
  /** Row of the tables, u32 [1]. */
  readonly step: Tensor;
  readonly ranks?: Ranks;
}

/** Predicts the velocity of the flow, [1, tokens, out_channels]. */
export function hunyuanVideo15Transformer(
  graph: Graph,
  config: HunyuanVideo15TransformerConfig,
  weights: WeightScope,
  { others, sample, given, grid, step, ranks = ALONE, ...inputs }: HunyuanVideo15Inputs,
): Tensor {
  const dim = hiddenSize(config);
  const modulation = stepModulation(inputs, step);
  const text = refinedText(graph, config, weights, inputs, modulation.refiner);
  const context = concat([...others, text], 1);
  const tokens = sample.dim(1);
  const split = new TokenSplit(ranks.sequence, [context.dim(1), tokens]);
  const layers = new LayerSplit(ranks.layers, modulation.blocks.map(() => 1));
  const beside = given ?? zeros(graph, tokens, config.in_channels - config.out_channels);
  const patches = concat([split.own(sample), split.own(beside)], -1);
  let streams: Streams<Tensor> = {
    text: split.own(context),
    image: patchEmbeddingLayer(weights, "x_embedder.proj", patches, dim, {
      channels: config.in_channels,
      patch: [1, 1, 1],
    }),
  };
  const rotary = { text: undefined, image: rotaryConstants(graph, config, grid, split) };
  const heads = { ...config, eps: EPS };
  modulation.blocks.forEach((vectors, layer) => {
    streams = layers.run(layer, streams, (own) =>
      graph.scope(`transformer_blocks.${layer}`, () => {
        const block = weights.scope("transformer_blocks").scope(layer);
        return doubleBlock(heads, block, own, vectors, rotary, geluFeedForward(EPS), split);
      }));
  });
  const result = split.gatherFirst(
    streams.image,
    { count: tokens, tokens },
    (x) =>
      linearLayer(weights, "proj_out", x, config.out_channels, {
        norm: { eps: EPS, ...modulation.out, name: "norm_out" },
      }),
  );
  return layers.share(result);
}

export function zeros(graph: Graph, tokens: number, features: number): Tensor {
  const values = () => new Float32Array(tokens * features);
  return graph.constant(`zeros ${tokens}`, [1, tokens, features], "f32", values);
}

/** Rotary tables of own tokens, which are turned by frame, row and column. */
function rotaryConstants(
  graph: Graph,
  { rope_axes_dim: axes, rope_theta, attention_head_dim }: HunyuanVideo15TransformerConfig,
  { frames, height, width }: VideoGrid,
  split: TokenSplit,
): Rotation {
  let tables: RotaryTables | undefined;
  // A video has many tokens, and plans do without.
  const values = (name: keyof RotaryTables) => () => {
    if (!tables) {
      const places = Array.from(
        { length: frames * height * width },
        (_, i) => [Math.floor(i / (height * width)), Math.floor(i / width) % height, i % width],
      );
      tables = rotaryTables(split.ownOf(places), axes, rope_theta);
    }
    return tables[name];
  };
  const shape = [split.ownCount(frames * height * width), attention_head_dim / 2];
  return {
    cos: graph.constant("rope_cos", shape, "f32", values("cos")),
    sin: graph.constant("rope_sin", shape, "f32", values("sin")),
  };
}
