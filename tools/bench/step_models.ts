/** Image transformers whose steps are timed: their weights, their inputs, their programs. */

import { type Flux2TransformerConfig, hiddenSize } from "../../models/families/flux2/config.ts";
import { MODULATION_ROWS } from "../../models/families/flux2/modulation.ts";
import { flux2Transformer } from "../../models/families/flux2/transformer.ts";
import {
  hiddenFeatures,
  PATCH_KEY,
  patchFeatures,
  type ZImageTransformerConfig,
} from "../../models/families/z_image/config.ts";
import { modulationRows } from "../../models/families/z_image/modulation.ts";
import { zImageTransformer } from "../../models/families/z_image/transformer.ts";
import type { Graph, Shape, Tensor, WeightScope } from "../../runtime/mod.ts";

/** A transformer. */
export interface StepModel {
  /** For titles. */
  readonly name: string;
  /** Of the weights that a step takes, by name. */
  readonly weights: Readonly<Record<string, Shape>>;
  /**
   * Shapes of what a step is given.
   *
   * @param side of the picture, in tokens
   */
  inputs(side: number): Readonly<Record<"context" | "sample" | "modulation", Shape>>;
  /** One forward pass. */
  trace(
    graph: Graph,
    weights: WeightScope,
    inputs: Readonly<Record<"context" | "sample" | "modulation", Tensor>>,
    side: number,
  ): Tensor;
}

/** Tokens of a prompt of usual length; pads are left out. */
const Z_IMAGE_TEXT_TOKENS = 64;
/** Tokens of every prompt, pads included. */
const FLUX2_TEXT_TOKENS = 512;

/** Z-Image. */
export function zImageSteps(config: ZImageTransformerConfig): StepModel {
  return {
    name: "z-image",
    weights: zImageShapes(config),
    inputs: (side) => ({
      context: [1, Z_IMAGE_TEXT_TOKENS, config.dim],
      sample: [1, side * side, patchFeatures(config)],
      modulation: [1, modulationRows(config) * config.dim],
    }),
    trace: (graph, weights, inputs, side) =>
      zImageTransformer(graph, config, weights, { ...inputs, grid: { rows: side, columns: side } }),
  };
}

/** FLUX.2 klein, from text alone. */
export function flux2Steps(config: Flux2TransformerConfig): StepModel {
  const dim = hiddenSize(config);
  return {
    name: "flux2-klein",
    weights: flux2Shapes(config),
    inputs: (side) => ({
      context: [1, FLUX2_TEXT_TOKENS, dim],
      sample: [1, side * side, config.in_channels],
      modulation: [1, MODULATION_ROWS * dim],
    }),
    trace: (graph, weights, inputs, side) =>
      flux2Transformer(graph, config, weights, {
        ...inputs,
        grid: { rows: side, columns: side },
        referenceGrids: [],
      }),
  };
}

function flux2Shapes(config: Flux2TransformerConfig): Record<string, Shape> {
  const { num_layers, num_single_layers, attention_head_dim, in_channels, mlp_ratio } = config;
  const dim = hiddenSize(config);
  const shapes: Record<string, Shape> = {
    "x_embedder.weight": [dim, in_channels],
    "proj_out.weight": [in_channels, dim],
  };
  const norms = (attn: string, ...names: readonly string[]) => {
    for (const name of names) shapes[`${attn}.${name}.weight`] = [attention_head_dim];
  };
  for (let i = 0; i < num_layers; i++) {
    const block = `transformer_blocks.${i}`;
    for (const name of ["to_q", "to_k", "to_v", "to_out.0"]) {
      shapes[`${block}.attn.${name}.weight`] = [dim, dim];
    }
    for (const name of ["add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"]) {
      shapes[`${block}.attn.${name}.weight`] = [dim, dim];
    }
    norms(`${block}.attn`, "norm_q", "norm_k", "norm_added_q", "norm_added_k");
    for (const name of ["ff", "ff_context"]) {
      shapes[`${block}.${name}.linear_in.weight`] = [2 * mlp_ratio * dim, dim];
      shapes[`${block}.${name}.linear_out.weight`] = [dim, mlp_ratio * dim];
    }
  }
  for (let i = 0; i < num_single_layers; i++) {
    const attn = `single_transformer_blocks.${i}.attn`;
    shapes[`${attn}.to_qkv_mlp_proj.weight`] = [(3 + 2 * mlp_ratio) * dim, dim];
    shapes[`${attn}.to_out.weight`] = [dim, (1 + mlp_ratio) * dim];
    norms(attn, "norm_q", "norm_k");
  }
  return shapes;
}

function zImageShapes(config: ZImageTransformerConfig): Record<string, Shape> {
  const { dim, n_heads, n_layers, n_refiner_layers } = config;
  const [hidden, features] = [hiddenFeatures(config), patchFeatures(config)];
  const shapes: Record<string, Shape> = {
    x_pad_token: [1, dim],
    [`all_x_embedder.${PATCH_KEY}.weight`]: [dim, features],
    [`all_x_embedder.${PATCH_KEY}.bias`]: [dim],
    [`all_final_layer.${PATCH_KEY}.linear.weight`]: [features, dim],
    [`all_final_layer.${PATCH_KEY}.linear.bias`]: [features],
  };
  const block = (name: string) => {
    for (const part of ["to_q", "to_k", "to_v", "to_out.0"]) {
      shapes[`${name}.attention.${part}.weight`] = [dim, dim];
    }
    for (const part of ["norm_q", "norm_k"]) {
      shapes[`${name}.attention.${part}.weight`] = [dim / n_heads];
    }
    for (const part of ["attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"]) {
      shapes[`${name}.${part}.weight`] = [dim];
    }
    shapes[`${name}.feed_forward.w1.weight`] = [hidden, dim];
    shapes[`${name}.feed_forward.w2.weight`] = [dim, hidden];
    shapes[`${name}.feed_forward.w3.weight`] = [hidden, dim];
  };
  for (let i = 0; i < n_refiner_layers; i++) block(`noise_refiner.${i}`);
  for (let i = 0; i < n_layers; i++) block(`layers.${i}`);
  return shapes;
}
