/**
 * Qwen2.5-VL as text encoder: what its `config.json` may say. `qwen.ts` computes the language model.
 *
 * Source: Qwen team 2025, "Qwen2.5-VL Technical Report"; transformers `Qwen2_5_VLForConditionalGeneration`.
 */
import { z } from "zod";
import { QWEN2_5_VISION_CONFIG } from "../image_encoders/qwen2_5_vision.ts";

const ROPE = z.object({
  rope_theta: z.number().positive().optional(),
  type: z.enum(["default", "mrope"]).nullish(),
  rope_type: z.enum(["default", "mrope"]).nullish(),
  mrope_section: z.array(z.int().positive()).length(3).nullish(),
});

/** Pairs of a head that turn with time, row and column, of the published models. */
const MROPE_SECTION = [16, 24, 24];

/** The language model's part of the file. Defaults are those of the published 7B model. */
const LANGUAGE_CONFIG = z.object({
  vocab_size: z.int().positive().default(152064),
  hidden_size: z.int().positive().default(3584),
  intermediate_size: z.int().positive().default(18944),
  num_hidden_layers: z.int().positive().max(1024).default(28),
  num_attention_heads: z.int().positive().default(28),
  num_key_value_heads: z.int().positive().nullish().transform((value) => value ?? 4),
  hidden_act: z.literal("silu").default("silu"),
  rms_norm_eps: z.number().positive().max(1).default(1e-6),
  use_sliding_window: z.literal(false).nullish(),
  /** Where transformers before 5 wrote the base of the frequencies. */
  rope_theta: z.number().positive().nullish(),
  rope_parameters: ROPE.nullish(),
  rope_scaling: ROPE.nullish(),
}).superRefine((config, context) => {
  const refuse = (key: string, message: string) =>
    context.addIssue({ code: "custom", path: [key], message });
  const { hidden_size: dim, num_attention_heads: heads, num_key_value_heads: kvHeads } = config;
  const headDim = dim / heads;
  if (headDim % 4 !== 0 || headDim > 128) {
    refuse("num_attention_heads", "it must give heads of a multiple of 4, up to 128");
  }
  if (heads % kvHeads !== 0) {
    refuse("num_key_value_heads", "it must divide num_attention_heads");
  }
  const pairs = mropeSection(config).reduce((sum, size) => sum + size, 0);
  if (pairs !== headDim / 2) {
    refuse("rope_scaling", `its mrope_section must have ${headDim / 2} pairs together`);
  }
}).transform(({ rope_theta, rope_parameters, rope_scaling, ...config }) => ({
  ...config,
  model_type: "qwen2_5_vl" as const,
  head_dim: config.hidden_size / config.num_attention_heads,
  rope_theta: rope_parameters?.rope_theta ?? rope_theta ?? 1e6,
  mrope_section: mropeSection({ rope_parameters, rope_scaling }),
}));

type Rope = z.output<typeof ROPE> | null | undefined;

function mropeSection(
  { rope_parameters, rope_scaling }: {
    readonly rope_parameters?: Rope;
    readonly rope_scaling?: Rope;
  },
): number[] {
  return rope_parameters?.mrope_section ?? rope_scaling?.mrope_section ?? MROPE_SECTION;
}

/**
 * What `config.json` of the encoder may say: of the language model, flat or in `text_config`, and of the vision tower,
 * which models that see nothing can do without.
 */
export const QWEN2_5_VL_CONFIG = z.preprocess(
  (json) => {
    if (!isObject(json)) return json;
    const { text_config: text, vision_config: vision } = json;
    return { text: isObject(text) ? text : json, vision: vision ?? null };
  },
  z.object({ text: LANGUAGE_CONFIG, vision: QWEN2_5_VISION_CONFIG.nullable() }),
).transform(({ text, vision }) => ({ ...text, vision }));

export type Qwen25VlConfig = z.output<typeof QWEN2_5_VL_CONFIG>;

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
