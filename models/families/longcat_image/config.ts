/** The components of a LongCat-Image model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { KL_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { checkOutChannels, checkRotaryAxes } from "../../config.ts";
import { optionalPart, type PartsOf, partsTable } from "../../pipeline/components.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import type { ImageLimits } from "../../pipeline/types.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { QWEN2_5_VL_CONFIG } from "../../text_encoders/qwen2_5_vl.ts";
import { requireQwenChat } from "../../tokenizers/mod.ts";
import { FLUX_SIZES, MAX_LAYERS } from "../flux1/config.ts";

/** Tokens that every prompt is filled up or cut to, and where the image's positions begin. */
export const PROMPT_TOKENS = 512;

export const LONGCAT_IMAGE_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("LongCatImageTransformer2DModel")
    .default("LongCatImageTransformer2DModel"),
  ...FLUX_SIZES,
  out_channels: z.int().positive().nullish(),
  num_single_layers: z.int().positive().max(MAX_LAYERS).default(38),
  joint_attention_dim: z.int().positive().default(3584),
}).superRefine(checkRotaryAxes).superRefine(checkOutChannels);

export type LongCatImageTransformerConfig = z.output<typeof LONGCAT_IMAGE_TRANSFORMER_CONFIG>;

export const EDIT_CLASS = "LongCatImageEditPipeline";

/** Of `model_index.json`: pixels of the copies of edited images for the transformer; of those for the text encoder a quarter. */
const LONGCAT_IMAGE_SETTINGS = z.object({
  vae_image_size: z.int().positive().default(1024 * 1024),
});

/** Sides of these copies are multiples of as many pixels. */
export const SIDE_MULTIPLE = 16;

/** What is allowed of edited images: they are brought to the model's own numbers of pixels. */
const EDIT_LIMITS: ImageLimits = {
  multiple: 1,
  maxPixels: 2048 * 2048,
  minSide: 16,
  maxAspect: 8,
  shapeMultiple: SIDE_MULTIPLE,
};

export const LONGCAT_IMAGE_PARTS = partsTable({
  components: {
    textEncoder: {
      classNames: ["Qwen2_5_VLForConditionalGeneration"],
      config: QWEN2_5_VL_CONFIG,
    },
    transformer: {
      classNames: ["LongCatImageTransformer2DModel"],
      config: LONGCAT_IMAGE_TRANSFORMER_CONFIG,
    },
    vae: { classNames: ["AutoencoderKL"], config: KL_VAE_CONFIG },
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "AutoencoderTiny"),
  },
  settings: LONGCAT_IMAGE_SETTINGS,
  scheduler: { type: FlowMatchEulerScheduler },
  equal: [["transformer.joint_attention_dim", "textEncoder.hidden_size"]],
  fits: ({ transformer, textEncoder, vae }, _, className) => {
    if (className === EDIT_CLASS && !textEncoder.vision) {
      throw new TypeError(
        "Cannot edit images: the text encoder is a language model alone, which sees none; " +
          "name its tower with --mmproj, or one that has it with --text-encoder, such as Qwen/Qwen-Image-Edit-2509",
      );
    }
    return [{
      "transformer's in_channels": transformer.in_channels,
      "packed latents' width": vae.latent_channels * PACKED_SIDE ** 2,
    }];
  },
  checkTokenizer: requireQwenChat,
});

export type LongCatImageParts = PartsOf<typeof LONGCAT_IMAGE_PARTS>;

export function longCatImageInfo(
  { vae, scheduler, transformer, className }: LongCatImageParts,
): FamilyInfo {
  const scale = scaleFactor(vae.config);
  const isEdit = className === EDIT_CLASS;
  // Only their names tell the models apart.
  const sampling = /turbo/i.test(transformer.path)
    ? { numInferenceSteps: 8, guidanceScale: 1 }
    : { numInferenceSteps: 50, guidanceScale: 4.5 };
  return {
    supportedTasks: isEdit ? ["TI2I"] : ["T2I", "TI2I"],
    defaultTask: isEdit ? "TI2I" : "T2I",
    defaults: { ...usualSize(scale), ...sampling, ...!isEdit && { guidanceRescale: 1 } },
    ...isEdit ? { taskDefaults: {}, imageLimits: EDIT_LIMITS } : {
      taskDefaults: { TI2I: { strength: 0.6 } },
      inpainting: { strength: 0.6 },
      startsFromLatents: true as const,
    },
    sizeMultiple: scale * PACKED_SIDE,
    maxImages: 1,
    maxSequenceLength: PROMPT_TOKENS,
    optionalSettings: [
      ...isEdit ? [] : ["guidanceRescale" as const],
      ...SAMPLING_CHOICES,
      ...scheduler.usesDynamicShifting ? [] : ["flowShift" as const],
    ],
  };
}
