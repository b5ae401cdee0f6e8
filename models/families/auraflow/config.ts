/** The components of an AuraFlow model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { KL_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { checkOutChannels, hiddenSize, refuse } from "../../config.ts";
import { optionalPart, type PartsOf, partsTable } from "../../pipeline/components.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { UMT5_CONFIG } from "../../text_encoders/umt5.ts";

/** Side of a patch, in latents. */
export const PATCH_SIDE = 2;
/** Learned tokens before those of the text. */
export const REGISTERS = 8;
const MAX_LAYERS = 1024;
const MAX_PROMPT_TOKENS = 256;

const size = (value: number) => z.int().positive().default(value);

export const AURAFLOW_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("AuraFlowTransformer2DModel").default("AuraFlowTransformer2DModel"),
  patch_size: z.literal(PATCH_SIDE).default(PATCH_SIDE),
  in_channels: size(4),
  out_channels: z.int().positive().nullish(),
  num_mmdit_layers: z.int().positive().max(MAX_LAYERS).default(4),
  num_single_dit_layers: z.int().positive().max(MAX_LAYERS).default(32),
  attention_head_dim: z.int().positive().multipleOf(4).default(256),
  num_attention_heads: size(12),
  joint_attention_dim: size(2048),
  caption_projection_dim: size(3072),
  pos_embed_max_size: size(1024),
}).superRefine(checkOutChannels).superRefine((config, context) => {
  const dim = hiddenSize(config);
  if (config.caption_projection_dim !== dim) {
    refuse(context, "caption_projection_dim", `it must be the width of the heads together, ${dim}`);
  }
  if (!Number.isInteger(Math.sqrt(config.pos_embed_max_size))) {
    refuse(context, "pos_embed_max_size", "it must be a square number");
  }
});

export type AuraFlowTransformerConfig = z.output<typeof AURAFLOW_TRANSFORMER_CONFIG>;

/** Places along a side of the table of positions. */
export function tableSide({ pos_embed_max_size: count }: AuraFlowTransformerConfig): number {
  return Math.sqrt(count);
}

const FEED_FORWARD_MULTIPLE = 256;

export function hiddenFeatures(config: AuraFlowTransformerConfig): number {
  const wide = Math.trunc(2 * 4 * hiddenSize(config) / 3);
  return Math.ceil(wide / FEED_FORWARD_MULTIPLE) * FEED_FORWARD_MULTIPLE;
}

export const AURAFLOW_PARTS = partsTable({
  components: {
    textEncoder: { classNames: ["UMT5EncoderModel"], config: UMT5_CONFIG },
    transformer: {
      classNames: ["AuraFlowTransformer2DModel"],
      config: AURAFLOW_TRANSFORMER_CONFIG,
    },
    vae: { classNames: ["AutoencoderKL"], config: KL_VAE_CONFIG },
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "AutoencoderTiny"),
  },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler, refused: ["use_dynamic_shifting"] },
  equal: [
    ["transformer.in_channels", "vae.latent_channels"],
    ["transformer.joint_attention_dim", "textEncoder.d_model"],
  ],
});

type AuraFlowParts = PartsOf<typeof AURAFLOW_PARTS>;

export function auraFlowInfo({ vae }: AuraFlowParts): FamilyInfo {
  const scale = scaleFactor(vae.config);
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: { ...usualSize(scale), numInferenceSteps: 50, guidanceScale: 3.5 },
    taskDefaults: { TI2I: { strength: 0.6 } },
    inpainting: { strength: 0.6 },
    sizeMultiple: scale * PATCH_SIDE,
    startsFromLatents: true,
    maxImages: 1,
    usualSequenceLength: MAX_PROMPT_TOKENS,
    optionalSettings: ["flowShift", "maxSequenceLength", ...SAMPLING_CHOICES],
  };
}
