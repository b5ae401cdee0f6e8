/**
 * Qwen3 as text encoder: what its `config.json` may say. `qwen.ts` computes it.
 *
 * Source: Qwen team 2025, "Qwen3 Technical Report"; transformers `Qwen3Model`.
 */
import { z } from "zod";

/** Base of the rotary frequencies where a file has none; transformers' default. */
const DEFAULT_ROPE_THETA = 10000;

const UNSCALED = z.literal("default", "scaled rotary positions are not supported");

/** Transformers 5 writes the type even where nothing is scaled. */
const ROPE_SCALING = z.union([
  z.object({ rope_type: UNSCALED }),
  z.object({ type: UNSCALED }),
], "scaled rotary positions are not supported");

const ROPE_PARAMETERS = z.object({
  rope_theta: z.number().positive().optional(),
  rope_type: UNSCALED.default("default"),
});

/** What `config.json` of the encoder may say; defaults are those of transformers' `Qwen3Config`. */
export const QWEN3_CONFIG = z.object({
  model_type: z.literal("qwen3").default("qwen3"),
  vocab_size: z.int().positive().default(151936),
  hidden_size: z.int().positive().default(4096),
  intermediate_size: z.int().positive().default(22016),
  num_hidden_layers: z.int().positive().default(32),
  num_attention_heads: z.int().positive().default(32),
  num_key_value_heads: z.int().positive().nullish(),
  head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  hidden_act: z.literal("silu").default("silu"),
  rms_norm_eps: z.number().positive().max(1).default(1e-6),
  /** Where transformers before 5 wrote the base of the frequencies. */
  rope_theta: z.number().positive().nullish(),
  rope_parameters: ROPE_PARAMETERS.nullish(),
  rope_scaling: ROPE_SCALING.nullish(),
  use_sliding_window: z.literal(false).default(false),
}).refine(
  ({ num_attention_heads: heads, num_key_value_heads: kvHeads }) =>
    heads % (kvHeads ?? heads) === 0,
  { path: ["num_key_value_heads"], message: "it must divide num_attention_heads" },
).transform(({ num_key_value_heads, rope_theta, rope_parameters, rope_scaling: _, ...config }) => ({
  ...config,
  num_key_value_heads: num_key_value_heads ?? config.num_attention_heads,
  rope_theta: rope_parameters?.rope_theta ?? rope_theta ?? DEFAULT_ROPE_THETA,
}));

export type Qwen3Config = z.output<typeof QWEN3_CONFIG>;
