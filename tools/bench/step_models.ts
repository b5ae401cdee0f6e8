/** Transformers whose steps are timed or counted: their weights and one forward pass. */

import { type Flux2TransformerConfig, hiddenSize } from "../../models/families/flux2/config.ts";
import { MODULATION_ROWS } from "../../models/families/flux2/modulation.ts";
import { flux2Transformer } from "../../models/families/flux2/transformer.ts";
import {
  hiddenSize as wanHiddenSize,
  type WanTransformerConfig,
} from "../../models/families/wan/config.ts";
import { modulationIndices, TIMESTEP_ROWS } from "../../models/families/wan/modulation.ts";
import { patchFeatures as wanPatchFeatures } from "../../models/families/wan/patches.ts";
import { wanTransformer } from "../../models/families/wan/transformer.ts";
import {
  hiddenFeatures,
  PATCH_KEY,
  patchFeatures,
  type ZImageTransformerConfig,
} from "../../models/families/z_image/config.ts";
import { modulationRows } from "../../models/families/z_image/modulation.ts";
import { zImageTransformer } from "../../models/families/z_image/transformer.ts";
import {
  f32,
  type InputSpec,
  type Program,
  program,
  type Shape,
  type Target,
  type Tensor,
  type WeightScope,
} from "../../runtime/mod.ts";

/** Width and height of an image or video, in pixels. */
export interface Size {
  /** A multiple of {@linkcode TOKEN_SIDE}. */
  readonly width: number;
  /** The same. */
  readonly height: number;
}

/** A transformer. */
export interface StepModel {
  /** For titles. */
  readonly name: string;
  /** Of the weights that a step takes, by name. */
  readonly weights: Readonly<Record<string, Shape>>;
  /** One forward pass; every input takes any numbers. */
  step(
    target: Target,
    weights: WeightScope,
    size: Size,
  ): Program<Record<string, InputSpec>, Tensor>;
}

/** Pixels along a side of a token, with all of these models. */
const TOKEN_SIDE = 16;
/** Tokens of a prompt of usual length; pads are left out. */
const Z_IMAGE_TEXT_TOKENS = 64;
/** Tokens of every prompt, pads included. */
const TEXT_TOKENS = 512;

/** Z-Image. */
export function zImageSteps(config: ZImageTransformerConfig): StepModel {
  return {
    name: "z-image",
    weights: zImageShapes(config),
    step: (target, weights, size) => {
      const grid = gridOf(size);
      const inputs = {
        context: f32(1, Z_IMAGE_TEXT_TOKENS, config.dim),
        sample: f32(1, grid.rows * grid.columns, patchFeatures(config)),
        modulation: f32(1, modulationRows(config) * config.dim),
      };
      return program(
        "step",
        target,
        inputs,
        (tensors, graph) => zImageTransformer(graph, config, weights, { ...tensors, grid }),
      );
    },
  };
}

/** FLUX.2 klein, from text alone. */
export function flux2Steps(config: Flux2TransformerConfig): StepModel {
  const dim = hiddenSize(config);
  return {
    name: "flux2-klein",
    weights: flux2Shapes(config),
    step: (target, weights, size) => {
      const grid = gridOf(size);
      const inputs = {
        context: f32(1, TEXT_TOKENS, dim),
        sample: f32(1, grid.rows * grid.columns, config.in_channels),
        modulation: f32(1, MODULATION_ROWS * dim),
      };
      return program(
        "step",
        target,
        inputs,
        (tensors, graph) =>
          flux2Transformer(graph, config, weights, { ...tensors, grid, referenceGrids: [] }),
      );
    },
  };
}

/**
 * Wan, from text alone.
 *
 * @param frames of the latents
 * @param prompts that share a pass: two with classifier-free guidance
 */
export function wanSteps(config: WanTransformerConfig, frames: number, prompts: number): StepModel {
  const dim = wanHiddenSize(config);
  const { num_attention_heads: heads, attention_head_dim: headDim } = config;
  return {
    name: "wan",
    weights: wanShapes(config),
    step: (target, weights, size) => {
      const { rows: height, columns: width } = gridOf(size);
      const inputs = {
        tokens: f32(1, frames * height * width, wanPatchFeatures(config, config.in_channels)),
        timesteps: f32(TIMESTEP_ROWS, dim),
        key: f32(prompts, TEXT_TOKENS, heads, headDim),
        value: f32(prompts, TEXT_TOKENS, heads, headDim),
        padLogit: f32(prompts),
      };
      return program("step", target, inputs, ({ key, value, padLogit, ...tensors }, graph) => {
        const indices = modulationIndices(config, [0]);
        const lengths = new Uint32Array(prompts).fill(TEXT_TOKENS);
        return wanTransformer(graph, config, weights, {
          ...tensors,
          grid: { frames, height, width },
          modulationIndices: graph.constant("indices", [indices.length, 1], "u32", indices),
          context: {
            blocks: Array.from({ length: config.num_layers }, () => ({ key, value })),
            lengths: graph.constant("lengths", [prompts], "u32", lengths),
            padLogit,
          },
        });
      });
    },
  };
}

function gridOf({ width, height }: Size): { rows: number; columns: number } {
  return { rows: height / TOKEN_SIDE, columns: width / TOKEN_SIDE };
}

function wanShapes(config: WanTransformerConfig): Record<string, Shape> {
  const { in_channels, patch_size, num_layers, ffn_dim, cross_attn_norm } = config;
  const dim = wanHiddenSize(config);
  const shapes: Record<string, Shape> = {
    "patch_embedding.weight": [dim, in_channels, ...patch_size],
    "patch_embedding.bias": [dim],
    scale_shift_table: [1, 2, dim],
  };
  const layer = (name: string, rows: number, columns: number) => {
    shapes[`${name}.weight`] = [rows, columns];
    shapes[`${name}.bias`] = [rows];
  };
  layer("proj_out", wanPatchFeatures(config, config.out_channels), dim);
  for (let i = 0; i < num_layers; i++) {
    const block = `blocks.${i}`;
    for (const attn of ["attn1", "attn2"]) {
      for (const part of ["to_q", "to_k", "to_v", "to_out.0"]) {
        layer(`${block}.${attn}.${part}`, dim, dim);
      }
      for (const part of ["norm_q", "norm_k"]) shapes[`${block}.${attn}.${part}.weight`] = [dim];
    }
    if (cross_attn_norm) {
      for (const part of ["weight", "bias"]) shapes[`${block}.norm2.${part}`] = [dim];
    }
    layer(`${block}.ffn.net.0.proj`, ffn_dim, dim);
    layer(`${block}.ffn.net.2`, dim, ffn_dim);
    shapes[`${block}.scale_shift_table`] = [1, 6, dim];
  }
  return shapes;
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
