/**
 * The Qwen-Image diffusion transformer, of double blocks.
 * Source: Qwen team 2025, "Qwen-Image Technical Report"; diffusers `QwenImageTransformer2DModel`.
 */
import { concat, type Graph, type Tensor, type WeightScope } from "../../../runtime/mod.ts";
import type { Streams } from "../../blocks/double_stream.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { linearLayer } from "../../blocks/layers.ts";
import { type ControlStates, steeredByAll } from "../../pipeline/control.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { TokenSplit } from "../../sharing/token_split.ts";
import { imagePositions, qwenImageBlock, rotaryOf, textPositions } from "./blocks.ts";
import type { ControlResiduals } from "./control.ts";
import { EPS, type QwenImageTransformerConfig } from "./config.ts";
import { blockModulation, type ModulationTables, outModulation } from "./modulation.ts";
import { hiddenSize } from "../../config.ts";

interface QwenImageInputs extends ModulationTables {
  /** Prompt from `qwenImageContext()`: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Latents as patches, [1, tokens, in_channels]: of an image, or of layers one after the other. */
  readonly sample: Tensor;
  readonly grids: readonly TokenGrid[];
  /** Latents of given images as patches, one after the other, [1, their tokens, in_channels]; nothing without any. */
  readonly references?: Tensor | undefined;
  readonly referenceGrids: readonly TokenGrid[];
  /** Row of the tables of all timesteps, u32 [1]. */
  readonly step: Tensor;
  readonly controls?: readonly ControlResiduals[] | undefined;
  readonly ranks?: Ranks;
}

/** Predicts the velocity of the flow, in patches like those of the sample, [1, tokens, in_channels]. */
export function qwenImageTransformer(
  graph: Graph,
  config: QwenImageTransformerConfig,
  weights: WeightScope,
  inputs: QwenImageInputs,
): Tensor {
  const { context, sample, references, referenceGrids, blocks, out, step, ...own } = inputs;
  const { ranks = ALONE, controls = [] } = inputs;
  const grids = [...own.grids, ...referenceGrids];
  const areLayers = config.use_layer3d_rope;
  const places = imagePositions(grids, areLayers);
  const count = sample.dim(1);
  // Given images that go by a timestep of their own are a stream of their own.
  const isSplit = config.zero_cond_t && references !== undefined;
  const tokens = references && !isSplit ? concat([sample, references], 1) : sample;
  const split = new TokenSplit(ranks.sequence, [
    ...[context.dim(1), tokens.dim(1)],
    ...isSplit ? [references.dim(1)] : [],
  ]);
  const rotaryTables = (name: string, places: readonly number[][]) =>
    rotaryOf(graph, name, config, split.ownOf(places));
  const rotary = {
    text: rotaryTables("text", textPositions(context.dim(1), grids, areLayers)),
    image: rotaryTables("image", places.slice(0, tokens.dim(1))),
    ...(isSplit && { reference: rotaryTables("reference", places.slice(count)) }),
  };
  const embed = (x: Tensor) => linearLayer(weights, "img_in", split.own(x), hiddenSize(config));
  const layers = new LayerSplit(ranks.layers, blocks.map(() => 1));
  let streams: Streams<Tensor> = {
    text: split.own(context),
    image: embed(tokens),
    ...(isSplit && { reference: embed(references) }),
  };
  const clean = isSplit ? graph.constant("clean", [1], "u32", [out.dim(0) - 1]) : undefined;
  const steps = controls.map((control) => control(split, blocks.length));
  let beside: ControlStates<Streams<Tensor>> = steps.map(({ begin }) => begin);
  blocks.forEach((tables, layer) => {
    ({ streams, beside } = layers.run(layer, { streams, beside }, (own) => {
      const vectors = blockModulation(tables, step, clean);
      const given = { layer, streams: own.streams, vectors, rotary, split };
      const result = qwenImageBlock(graph, config, weights, given);
      const next = { x: result.image, controls: own.beside };
      const { x, controls } = steeredByAll(steps.map(({ after }) => after), next, layer);
      return { streams: { ...result, image: x }, beside: controls };
    }));
  });
  const result = split.gatherFirst(
    streams.image,
    { count, tokens: tokens.dim(1) },
    (x) =>
      linearLayer(weights, "proj_out", x, config.in_channels, {
        norm: { eps: EPS, ...outModulation(out, step), name: "norm_out" },
      }),
  );
  return layers.share(result);
}
