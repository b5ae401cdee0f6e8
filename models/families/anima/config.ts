/** The components of an Anima model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { QWEN_IMAGE_VAE_CONFIG } from "../../autoencoders/wan/config.ts";
import { headFits, refuse } from "../../config.ts";
import { optionalPart, type PartsOf, partsTable } from "../../pipeline/components.ts";
import { type FamilyInfo, USUAL_SEQUENCE_LENGTH, usualSize } from "../../pipeline/family_info.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { QWEN3_CONFIG } from "../../text_encoders/qwen3.ts";

/** Side of a patch, in latents. */
export const PATCH_SIDE = 2;
const MAX_LAYERS = 1024;

const size = (value: number) => z.int().positive().default(value);
const absent = (what: string) =>
  z.literal([false, null], `models with ${what} are not supported`).nullish();

/** `transformer/config.json`: what Anima has of Cosmos-Predict2's transformer. */
export const ANIMA_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("CosmosTransformer3DModel").default("CosmosTransformer3DModel"),
  in_channels: size(16),
  out_channels: size(16),
  num_attention_heads: size(16),
  attention_head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  num_layers: z.int().positive().max(MAX_LAYERS).default(28),
  mlp_ratio: z.number().positive().default(4),
  text_embed_dim: size(1024),
  adaln_lora_dim: size(256),
  /** Latents along time, height and width. */
  max_size: z.array(z.int().positive()).length(3).default([128, 240, 240]),
  patch_size: z.tuple([z.literal(1), z.literal(PATCH_SIDE), z.literal(PATCH_SIDE)])
    .default([1, PATCH_SIDE, PATCH_SIDE]),
  rope_scale: z.array(z.number().positive()).length(3).default([1, 4, 4]),
  concat_padding_mask: z.literal(true, "models without a mask of padding are not supported")
    .default(true),
  extra_pos_embed_type: absent("learned positions"),
  use_crossattn_projection: absent("a projection of the prompt"),
  controlnet_block_every_n: absent("a ControlNet"),
  img_context_dim_in: absent("a context of images"),
}).superRefine(({ in_channels, out_channels }, context) => {
  if (in_channels === out_channels) return;
  refuse(context, "out_channels", `it must be in_channels = ${in_channels}`);
});

export type AnimaTransformerConfig = z.output<typeof ANIMA_TRANSFORMER_CONFIG>;

/** `text_conditioner/config.json`. */
export const ANIMA_CONDITIONER_CONFIG = z.object({
  _class_name: z.literal("AnimaTextConditioner").default("AnimaTextConditioner"),
  source_dim: size(1024),
  target_dim: size(1024),
  model_dim: size(1024),
  num_layers: z.int().positive().max(MAX_LAYERS).default(6),
  num_attention_heads: size(16),
  mlp_ratio: z.number().positive().default(4),
  target_vocab_size: size(32128),
  use_self_attention: z.literal(true, "conditioners without self-attention are not supported")
    .default(true),
  use_layer_norm: z.literal(false, "conditioners with layer norms are not supported")
    .default(false),
  min_sequence_length: z.int().positive().max(4096).default(512),
}).superRefine(({ model_dim, target_dim, num_attention_heads: heads }, context) => {
  if (model_dim !== target_dim) {
    refuse(context, "model_dim", `it must be target_dim = ${target_dim}`);
  }
  const headDim = model_dim / heads;
  if (!headFits(headDim)) {
    refuse(context, "num_attention_heads", "it must give heads of a multiple of 4, up to 128");
  }
}).transform((config) => ({
  ...config,
  vocab_size: config.target_vocab_size,
  max_position_embeddings: USUAL_SEQUENCE_LENGTH,
}));

export type AnimaConditionerConfig = z.output<typeof ANIMA_CONDITIONER_CONFIG>;

export const ANIMA_PARTS = partsTable({
  components: {
    textEncoder: { classNames: ["Qwen3Model", "Qwen3ForCausalLM"], config: QWEN3_CONFIG },
    // What `text_conditioner` is here: it reads T5's tokens, and Qwen3's states.
    textEncoder2: { classNames: ["AnimaTextConditioner"], config: ANIMA_CONDITIONER_CONFIG },
    transformer: { classNames: ["CosmosTransformer3DModel"], config: ANIMA_TRANSFORMER_CONFIG },
    vae: {
      classNames: ["AutoencoderKLQwenImage", "AutoencoderKLWan"],
      config: QWEN_IMAGE_VAE_CONFIG,
    },
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "TAEHV"),
  },
  encoders: { tokens: "textEncoder", pooled: "textEncoder2" },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler, refused: ["use_dynamic_shifting"] },
  equal: [
    ["transformer.in_channels", "vae.z_dim"],
    ["transformer.text_embed_dim", "textEncoder2.target_dim"],
    ["textEncoder2.source_dim", "textEncoder.hidden_size"],
  ],
});

export type AnimaParts = PartsOf<typeof ANIMA_PARTS>;

export function animaInfo({ vae }: AnimaParts): FamilyInfo {
  const scale = vae.config.scale_factor_spatial;
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: { ...usualSize(scale), numInferenceSteps: 50, guidanceScale: 4 },
    taskDefaults: { TI2I: { strength: 0.9 } },
    inpainting: { strength: 0.9 },
    sizeMultiple: scale * PATCH_SIDE,
    maxImages: 1,
    optionalSettings: ["flowShift", ...SAMPLING_CHOICES],
  };
}
