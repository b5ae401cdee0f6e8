/** What the files of a FLUX.2 pipeline may say. Defaults are those of the diffusers classes. */
import { z } from "zod";

/** Axes of a token's position: picture, row, column, place in the text. */
const AXES = 4;

/** `transformer/config.json` of `Flux2Transformer2DModel`. */
export const FLUX2_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("Flux2Transformer2DModel").default("Flux2Transformer2DModel"),
  patch_size: z.literal(1).default(1),
  in_channels: z.int().positive().multipleOf(4).default(128),
  out_channels: z.int().positive().nullish(),
  num_layers: z.int().positive().default(8),
  num_single_layers: z.int().positive().default(48),
  attention_head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  num_attention_heads: z.int().positive().default(48),
  joint_attention_dim: z.int().positive().default(15360),
  timestep_guidance_channels: z.int().positive().multipleOf(2).default(256),
  mlp_ratio: z.int("only whole ratios of the hidden width are supported").positive().default(3),
  axes_dims_rope: z.array(z.int().positive().multipleOf(2)).length(AXES).default([32, 32, 32, 32]),
  rope_theta: z.number().positive().default(2000),
  eps: z.number().positive().max(1).default(1e-6),
  guidance_embeds: z.boolean().default(true),
}).superRefine((config, context) => {
  const pairs = config.axes_dims_rope.reduce((sum, dim) => sum + dim, 0);
  if (pairs !== config.attention_head_dim) {
    context.addIssue({
      code: "custom",
      path: ["axes_dims_rope"],
      message: `its sum must be attention_head_dim = ${config.attention_head_dim}`,
    });
  }
  if ((config.out_channels ?? config.in_channels) !== config.in_channels) {
    context.addIssue({
      code: "custom",
      path: ["out_channels"],
      message: `it must be in_channels = ${config.in_channels}`,
    });
  }
});

/** Parsed {@linkcode FLUX2_TRANSFORMER_CONFIG}. */
export type Flux2TransformerConfig = z.output<typeof FLUX2_TRANSFORMER_CONFIG>;

/** The keys of `model_index.json` that change what the pipeline does. */
export const FLUX2_PIPELINE_CONFIG = z.object({
  /** Trained to make a picture in a few steps without guidance. */
  is_distilled: z.boolean().nullish().transform((value) => value ?? false),
});

/** Parsed {@linkcode FLUX2_PIPELINE_CONFIG}. */
export type Flux2PipelineConfig = z.output<typeof FLUX2_PIPELINE_CONFIG>;

/** Width of the tokens inside of the transformer. */
export function hiddenSize(
  { num_attention_heads, attention_head_dim }: Flux2TransformerConfig,
): number {
  return num_attention_heads * attention_head_dim;
}
