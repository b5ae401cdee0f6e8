/** Parts of models that are timed or counted, with weights that are made up. */
import { KL_VAE_CONFIG, type KlVaeConfig, scaleFactor } from "../models/autoencoders/kl/config.ts";
import { klDecoder, klEncoder } from "../models/autoencoders/kl/coder.ts";
import { WAN_VAE_CONFIG, type WanVaeConfig } from "../models/autoencoders/wan/config.ts";
import { wanDecoder } from "../models/autoencoders/wan/coder.ts";
import { FrameHistory } from "../models/autoencoders/wan/history.ts";
import { hiddenSize } from "../models/config.ts";
import { FLUX2_TRANSFORMER_CONFIG } from "../models/families/flux2/config.ts";
import { MODULATION_ROWS } from "../models/families/flux2/modulation.ts";
import { flux2Transformer } from "../models/families/flux2/transformer.ts";
import { WAN_TRANSFORMER_CONFIG } from "../models/families/wan/config.ts";
import { modulationIndices, TIMESTEP_ROWS } from "../models/families/wan/modulation.ts";
import { patchFeatures as wanPatchFeatures } from "../models/families/wan/patches.ts";
import { wanTransformer } from "../models/families/wan/transformer.ts";
import { patchFeatures, Z_IMAGE_TRANSFORMER_CONFIG } from "../models/families/z_image/config.ts";
import { modulationRows } from "../models/families/z_image/modulation.ts";
import { zImageTransformer } from "../models/families/z_image/transformer.ts";
import { qwenEncoder } from "../models/text_encoders/qwen.ts";
import { QWEN3_CONFIG, type Qwen3Config } from "../models/text_encoders/qwen3.ts";
import {
  type DeviceTensor,
  f32,
  type Program,
  program,
  type Target,
  type WeightScope,
} from "../runtime/mod.ts";

/** Width and height of an image or video, in pixels. */
export interface Size {
  /** A multiple of {@linkcode TOKEN_SIDE}. */
  readonly width: number;
  readonly height: number;
}

/** A part of a model whose program runs once in a step or a stage. */
export interface ModelPart {
  /** Whether a linear layer has a bias, by the name of that. */
  hasBias(name: string): boolean;
  /** Traces one run; every input takes any numbers. */
  trace(
    target: Target,
    weights: WeightScope,
    size: Size,
  ): Program<Record<string, ArrayLike<number>>, DeviceTensor>;
}

/** Pixels along a side of a token, with all of these models. */
const TOKEN_SIDE = 16;
/** Tokens of a prompt of usual length; pads are omitted. */
const Z_IMAGE_TEXT_TOKENS = 64;
/** Tokens of every prompt, pads included. */
const TEXT_TOKENS = 512;

/** Z-Image-Turbo, with as many of its 30 layers. */
export function zImage(layers = 30): ModelPart {
  const n_refiner_layers = Math.min(2, layers);
  const config = Z_IMAGE_TRANSFORMER_CONFIG.parse({ n_layers: layers, n_refiner_layers });
  return {
    hasBias: (name) => /^all_(x_embedder|final_layer)\./.test(name),
    trace: (target, weights, size) => {
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

/** FLUX.2 klein 4B from text alone, with as many of its 25 layers: every fifth is one of two streams. */
export function klein4B(layers = 25): ModelPart {
  const num_layers = Math.max(1, Math.round(layers / 5));
  const config = FLUX2_TRANSFORMER_CONFIG.parse({
    num_layers,
    num_single_layers: Math.max(1, layers - num_layers),
    num_attention_heads: 24,
    guidance_embeds: false,
  });
  const dim = hiddenSize(config);
  return {
    hasBias: () => false,
    trace: (target, weights, size) => {
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

/** Wan 2.1 1.3B from text alone, with as many of its 30 layers. */
export function wan1B(frames: number, prompts: number, layers = 30): ModelPart {
  const config = WAN_TRANSFORMER_CONFIG.parse({
    num_attention_heads: 12,
    num_layers: layers,
    ffn_dim: 8960,
  });
  const dim = hiddenSize(config);
  const { num_attention_heads: heads, attention_head_dim: headDim } = config;
  return {
    hasBias: () => true,
    trace: (target, weights, size) => {
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

export function klDecode(config: KlVaeConfig): ModelPart {
  return {
    hasBias: () => true,
    trace: (target, weights, { width, height }) => {
      const scale = scaleFactor(config);
      const latents = f32(1, height / scale, width / scale, config.latent_channels);
      return program(
        "decode",
        target,
        { latents },
        ({ latents }, graph) => klDecoder(graph, config, weights, latents),
      );
    },
  };
}

export function klEncode(config: KlVaeConfig): ModelPart {
  return {
    hasBias: () => true,
    trace: (target, weights, { width, height }) =>
      program(
        "encode",
        target,
        { pixels: f32(1, height, width, config.out_channels) },
        ({ pixels }, graph) => klEncoder(graph, config, weights, pixels),
      ),
  };
}

/** An autoencoder of videos: a later latent frame to its frames. */
export function wanDecode(config: WanVaeConfig): ModelPart {
  return {
    hasBias: () => true,
    trace: (target, weights, { width, height }) => {
      const side = config.scale_factor_spatial;
      const latent = f32(1, 1, height / side, width / side, config.z_dim);
      const history = new FrameHistory();
      return program(
        "decode",
        target,
        { latent },
        ({ latent }, graph) =>
          wanDecoder(graph, config, weights, latent, { place: "next", history }),
      );
    },
  };
}

export function qwen3Encode(config: Qwen3Config, tokens: number): ModelPart {
  return {
    hasBias: () => false,
    trace: (target, weights) =>
      program(
        "encode",
        target,
        { embeddings: f32(1, tokens, config.hidden_size) },
        ({ embeddings }, graph) => {
          const lengths = graph.constant("lengths", [1], "u32", [tokens]);
          const inputs = { embeddings, lengths };
          return qwenEncoder(graph, config, weights, inputs, [config.num_hidden_layers])[0]!;
        },
      ),
  };
}

/** Qwen3-4B, the text encoder of Z-Image and klein, with as many of its 36 layers. */
export function qwen3Of4B(tokens: number, layers = 36): ModelPart {
  return qwen3Encode(
    QWEN3_CONFIG.parse({
      hidden_size: 2560,
      intermediate_size: 9728,
      num_hidden_layers: layers,
      num_attention_heads: 32,
      num_key_value_heads: 8,
      rope_theta: 1e6,
    }),
    tokens,
  );
}

export const Z_IMAGE_VAE: KlVaeConfig = KL_VAE_CONFIG.parse({
  block_out_channels: [128, 256, 512, 512],
  down_block_types: new Array(4).fill("DownEncoderBlock2D"),
  up_block_types: new Array(4).fill("UpDecoderBlock2D"),
  latent_channels: 16,
  layers_per_block: 2,
  use_quant_conv: false,
  use_post_quant_conv: false,
});

export const WAN_VAE: WanVaeConfig = WAN_VAE_CONFIG.parse({
  latents_mean: new Array(16).fill(0),
  latents_std: new Array(16).fill(1),
});

function gridOf({ width, height }: Size): { rows: number; columns: number } {
  return { rows: height / TOKEN_SIDE, columns: width / TOKEN_SIDE };
}
