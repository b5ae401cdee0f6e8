/**
 * The Z-Image diffusion transformer: text and image are refined apart, then are one sequence for all layers.
 * Source: Z-Image team 2025, "Z-Image: An Efficient Image Generation Foundation Model with Single-Stream Diffusion
 * Transformer"; diffusers `ZImageTransformer2DModel`, whose module names are the weight names.
 */
import {
  concat,
  elementwise,
  type Graph,
  rmsNorm,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { LayerSplit } from "../../sharing/layer_split.ts";
import { linearLayer } from "../../blocks/layers.ts";
import { embedImage, zImageBlock } from "./block.ts";
import { PATCH_KEY, patchFeatures, type ZImageTransformerConfig } from "./config.ts";
import { modulationVectors } from "./modulation.ts";
import { tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { ALONE, type Ranks } from "../../sharing/ranks.ts";
import { TokenSplit } from "../../sharing/token_split.ts";
import type { ZImageControl } from "./control.ts";
import { imagePositions, positionTables, textPositions } from "./positions.ts";

const FINAL_EPS = 1e-6;

interface ZImageInputs {
  /** Prompt from {@linkcode zImageContext}: [1, text tokens, dim]. */
  readonly context: Tensor;
  /** Latents as patches, [1, tokens, features]. */
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  /** One row of `modulationTable()`. */
  readonly modulation: Tensor;
  readonly control?: ZImageControl | undefined;
  readonly ranks?: Ranks;
}

/** The prompt as the layers take it, of states, [1, text tokens, cap_feat_dim], and a mask, f32 [1, text tokens, 1]. */
export function zImageContext(
  graph: Graph,
  config: ZImageTransformerConfig,
  weights: WeightScope,
  states: Tensor,
  mask: Tensor,
): Tensor {
  const { dim, norm_eps: eps, cap_feat_dim } = config;
  const embedder = weights.scope("cap_embedder");
  const normed = rmsNorm(states, {
    weight: embedder.tensor(graph, "0.weight", [cap_feat_dim]),
    eps,
    name: "cap_embedder",
  });
  const pad = weights.tensor(graph, "cap_pad_token", [1, dim]);
  let x = elementwise("mask * x + (1.0 - mask) * pad", {
    x: linearLayer(embedder, "1", normed, dim),
    mask,
    pad,
  }, { name: "caption" });
  const rotary = positionTables(graph, "text", config, textPositions(states.dim(1)));
  for (let layer = 0; layer < config.n_refiner_layers; layer++) {
    x = graph.scope(`context_refiner.${layer}`, () => {
      const block = weights.scope("context_refiner").scope(layer);
      return zImageBlock(config, block, x, rotary);
    });
  }
  return x;
}

/** Predicts the negated velocity of the flow, in patches like those of the sample, [1, tokens, features]. */
export function zImageTransformer(
  graph: Graph,
  config: ZImageTransformerConfig,
  weights: WeightScope,
  { context, sample, grid, modulation, control, ranks = ALONE }: ZImageInputs,
): Tensor {
  const textTokens = context.dim(1);
  const { refiners, layers, out } = modulationVectors(config, modulation);
  const places = imagePositions(grid, textTokens);
  const split = new TokenSplit(ranks.sequence, [places.length]);
  const ownPlaces = split.ownOf(places);
  const image = { rotary: positionTables(graph, "image", config, ownPlaces), split };
  const jointSplit = new TokenSplit(ranks.sequence, [places.length, textTokens]);
  const all = [...ownPlaces, ...jointSplit.ownOf(textPositions(textTokens))];
  const joint = { rotary: positionTables(graph, "joint", config, all), split: jointSplit };
  const shares = new LayerSplit(ranks.layers, [...refiners, ...layers].map(() => 1));
  const block = (stack: string, i: number, x: Tensor, { rotary, split }: typeof image) =>
    graph.scope(`${stack}.${i}`, () => {
      const vectors = (stack === "layers" ? layers : refiners)[i]!;
      return zImageBlock(config, weights.scope(stack).scope(i), x, rotary, vectors, split);
    });
  const embedder = { weights, name: `all_x_embedder.${PATCH_KEY}` };
  const embedded = split.own(embedImage(config, weights, sample, embedder));
  let refined = { x: embedded, beside: control?.begin(embedded) };
  for (const layer of refiners.keys()) {
    refined = shares.run(layer, refined, (given) => {
      const x = block("noise_refiner", layer, given.x, image);
      const beside = layer === 0 ? control?.refine(given.x, image) : given.beside;
      const refine = (own: Tensor) =>
        own === given.x ? x : block("noise_refiner", layer, own, image);
      return { x, beside: beside && control!.withRefiner(beside, layer, refine) };
    });
  }
  const ownContext = jointSplit.own(context);
  const behind = (x: Tensor) => concat([x, ownContext], 1);
  const { beside } = refined;
  const first = behind(refined.x);
  let state = { x: first, control: beside && first };
  for (const layer of layers.keys()) {
    state = shares.run(refiners.length + layer, state, (given) => {
      const before = layer === 0 && beside
        ? control!.join(behind(beside.picture), beside.sample ? behind(beside.sample) : given.x)
        : given.control;
      const next = { x: block("layers", layer, given.x, joint), control: before };
      return control?.afterLayer(next, layer, joint) ?? next;
    });
  }
  const final = weights.scope("all_final_layer").scope(PATCH_KEY);
  const result = split.gatherFirst(
    state.x,
    { count: tokenCount(grid), tokens: places.length },
    (x) =>
      linearLayer(final, "linear", x, patchFeatures(config), {
        norm: { eps: FINAL_EPS, scale: out, name: "norm_final" },
      }),
  );
  return shares.share(result);
}
