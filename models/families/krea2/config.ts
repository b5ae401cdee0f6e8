/** The components of a Krea 2 model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { QWEN_IMAGE_VAE_CONFIG } from "../../autoencoders/wan/config.ts";
import { checkRotaryAxes, headFits, refuse } from "../../config.ts";
import { optionalPart, type PartsOf, partsTable } from "../../pipeline/components.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { QWEN3_VL_CLASSES, QWEN3_VL_CONFIG } from "../../text_encoders/qwen3_vl.ts";
import { requireQwenChat } from "../../tokenizers/mod.ts";

/** Side of a patch, in latents. */
export const PATCH_SIDE = 2;
/** Axes of a token's position: one that images do not use, row, column. */
const AXES = 3;
/** References of an edit: as many as AI-Toolkit trains with. */
const MAX_REFERENCES = 3;
const MAX_LAYERS = 1024;

const layers = (count: number) => z.int().nonnegative().max(MAX_LAYERS).default(count);
const size = (value: number) => z.int().positive().default(value);

export const KREA2_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("Krea2Transformer2DModel").default("Krea2Transformer2DModel"),
  in_channels: z.int().positive().multipleOf(PATCH_SIDE ** 2).default(64),
  num_layers: layers(28),
  attention_head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  num_attention_heads: size(48),
  num_key_value_heads: size(12),
  intermediate_size: size(16384),
  timestep_embed_dim: z.int().positive().multipleOf(2).default(256),
  text_hidden_dim: size(2560),
  num_text_layers: size(12),
  text_num_attention_heads: size(20),
  text_num_key_value_heads: size(20),
  text_intermediate_size: size(6912),
  num_layerwise_text_blocks: layers(2),
  num_refiner_text_blocks: layers(2),
  axes_dims_rope: z.array(z.int().positive().multipleOf(2)).length(AXES).default([32, 48, 48]),
  rope_theta: z.number().positive().default(1000),
  norm_eps: z.number().positive().max(1).default(1e-5),
}).superRefine(checkRotaryAxes).superRefine((config, context) => {
  const { num_attention_heads, text_num_attention_heads, text_hidden_dim } = config;
  const headDim = text_hidden_dim / text_num_attention_heads;
  if (!headFits(headDim)) {
    const heads = `text_hidden_dim = ${text_hidden_dim} must give heads`;
    refuse(context, "text_num_attention_heads", `${heads} of a multiple of 4, up to 128`);
  }
  if (num_attention_heads % config.num_key_value_heads !== 0) {
    refuse(context, "num_key_value_heads", "it must divide num_attention_heads");
  }
  if (text_num_attention_heads % config.text_num_key_value_heads !== 0) {
    refuse(context, "text_num_key_value_heads", "it must divide text_num_attention_heads");
  }
});

export type Krea2TransformerConfig = z.output<typeof KREA2_TRANSFORMER_CONFIG>;

/** Layers of the text encoder whose states the transformer sees: every third. */
export function textLayers(count: number): number[] {
  return Array.from({ length: count }, (_, i) => 2 + 3 * i);
}

export const KREA2_PARTS = partsTable({
  components: {
    textEncoder: { classNames: QWEN3_VL_CLASSES, config: QWEN3_VL_CONFIG },
    transformer: { classNames: ["Krea2Transformer2DModel"], config: KREA2_TRANSFORMER_CONFIG },
    // Single files of it have the names of Wan 2.1's, which it is but for its numbers.
    vae: {
      classNames: ["AutoencoderKLQwenImage", "AutoencoderKLWan"],
      config: QWEN_IMAGE_VAE_CONFIG,
    },
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "TAEHV"),
  },
  /** Of `model_index.json`. */
  settings: z.object({
    is_distilled: z.boolean().default(false),
    patch_size: z.literal(PATCH_SIDE).default(PATCH_SIDE),
    text_encoder_select_layers: z.array(z.int().nonnegative()).nullish()
      .transform((value) => value ?? textLayers(12)),
  }),
  scheduler: { type: FlowMatchEulerScheduler },
  equal: [["transformer.text_hidden_dim", "textEncoder.hidden_size"]],
  fits: ({ transformer, vae }, { text_encoder_select_layers }) => [
    {
      "transformer's in_channels": transformer.in_channels,
      "packed latents' width": vae.z_dim * PATCH_SIDE ** 2,
    },
    {
      "transformer's num_text_layers": transformer.num_text_layers,
      "number of text_encoder_select_layers": text_encoder_select_layers.length,
    },
  ],
  checkTokenizer: requireQwenChat,
});

export type Krea2Parts = PartsOf<typeof KREA2_PARTS>;

/** Without a vision tower the text encoder sees no references. */
export function krea2Info({ vae, settings, scheduler, textEncoder }: Krea2Parts): FamilyInfo {
  const isSeeing = textEncoder.config.vision !== null;
  const scale = vae.config.scale_factor_spatial;
  const sampling = settings.is_distilled
    ? { numInferenceSteps: 8, guidanceScale: 0 }
    : { numInferenceSteps: 28, guidanceScale: 4.5 };
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: { ...usualSize(scale), ...sampling },
    taskDefaults: { TI2I: { strength: 0.6 } },
    inpainting: { strength: 0.6 },
    sizeMultiple: scale * PATCH_SIDE,
    maxImages: 1,
    ...(isSeeing && { maxReferences: MAX_REFERENCES, isShapedByReferences: true }),
    optionalSettings: [
      ...isSeeing ? ["referenceMethod" as const] : [],
      "maxSequenceLength",
      ...SAMPLING_CHOICES,
      ...scheduler.usesDynamicShifting ? [] : ["flowShift" as const],
    ],
  };
}
