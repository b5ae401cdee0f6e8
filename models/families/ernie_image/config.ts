/** The components of an ERNIE-Image model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { FLUX2_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { checkOutChannels, headFits, refuse } from "../../config.ts";
import { type PartsOf, partsTable } from "../../pipeline/components.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import {
  MINISTRAL3_CLASSES,
  MINISTRAL3_CONFIG,
  requireMistral,
} from "../../text_encoders/ministral3.ts";

/** Axes of a token's position: place in the text, row, column. */
const AXES = 3;
const MAX_PROMPT_TOKENS = 1024;
/** Added to the variances of the autoencoder, whatever its configuration says. */
export const BATCH_NORM_EPS = 1e-5;

const size = (value: number) => z.int().positive().default(value);

export const ERNIE_IMAGE_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("ErnieImageTransformer2DModel").default("ErnieImageTransformer2DModel"),
  hidden_size: size(3072),
  num_attention_heads: size(24),
  num_layers: z.int().positive().max(1024).default(24),
  ffn_hidden_size: size(8192),
  in_channels: size(128),
  out_channels: z.int().positive().nullish(),
  patch_size: z.literal(1).default(1),
  text_in_dim: size(2560),
  rope_theta: z.number().positive().default(256),
  rope_axes_dim: z.array(z.int().positive().multipleOf(2)).length(AXES).default([32, 48, 48]),
  eps: z.number().positive().max(1).default(1e-6),
  qk_layernorm: z.literal(true).default(true),
}).superRefine(checkOutChannels).superRefine((config, context) => {
  const { hidden_size, num_attention_heads, rope_axes_dim } = config;
  const headDim = hidden_size / num_attention_heads;
  if (!headFits(headDim)) {
    refuse(context, "num_attention_heads", "it must give heads of a multiple of 4, up to 128");
  } else if (rope_axes_dim.reduce((sum, dim) => sum + dim, 0) !== headDim) {
    refuse(context, "rope_axes_dim", `its sum must be the width of a head, ${headDim}`);
  }
});

export type ErnieImageTransformerConfig = z.output<typeof ERNIE_IMAGE_TRANSFORMER_CONFIG>;

export const ERNIE_IMAGE_PARTS = partsTable({
  components: {
    textEncoder: { classNames: MINISTRAL3_CLASSES, config: MINISTRAL3_CONFIG },
    transformer: {
      classNames: ["ErnieImageTransformer2DModel"],
      config: ERNIE_IMAGE_TRANSFORMER_CONFIG,
    },
    vae: { classNames: ["AutoencoderKLFlux2"], config: FLUX2_VAE_CONFIG },
  },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler, refused: ["use_dynamic_shifting"] },
  equal: [["transformer.text_in_dim", "textEncoder.hidden_size"]],
  fits: ({ transformer: { in_channels }, vae }) => [{
    "transformer's in_channels": in_channels,
    "packed latents' width": vae.latent_channels * PACKED_SIDE ** 2,
  }],
  checkTokenizer: requireMistral,
});

type ErnieImageParts = PartsOf<typeof ERNIE_IMAGE_PARTS>;

export function ernieImageInfo({ vae, transformer }: ErnieImageParts): FamilyInfo {
  const scale = scaleFactor(vae.config);
  // Only their names tell the models apart.
  const sampling = /turbo/i.test(transformer.path)
    ? { numInferenceSteps: 8, guidanceScale: 1 }
    : { numInferenceSteps: 50, guidanceScale: 4 };
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: { ...usualSize(scale), ...sampling },
    taskDefaults: { TI2I: { strength: 0.6 } },
    inpainting: { strength: 0.6 },
    sizeMultiple: scale * PACKED_SIDE,
    maxImages: 1,
    maxSequenceLength: MAX_PROMPT_TOKENS,
    optionalSettings: ["flowShift", "maxSequenceLength", ...SAMPLING_CHOICES],
  };
}
