/** The components of a FLUX.2 model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { FLUX2_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { checkOutChannels, checkRotaryAxes } from "../../config.ts";
import { type PartsOf, partsTable } from "../../pipeline/components.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import { FlowScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import {
  isMistral,
  MINISTRAL3_CONFIG,
  MISTRAL_SMALL_CLASSES,
} from "../../text_encoders/ministral3.ts";
import { QWEN3_CONFIG } from "../../text_encoders/qwen3.ts";
import { requireQwenChat } from "../../tokenizers/mod.ts";

/** Axes of a token's position: image, row, column, place in the text. */
const AXES = 4;

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
}).superRefine(checkRotaryAxes).superRefine(checkOutChannels);

export type Flux2TransformerConfig = z.output<typeof FLUX2_TRANSFORMER_CONFIG>;

const FLUX2_PIPELINE_CONFIG = z.object({
  /** Trained to make an image in a few steps without guidance. */
  is_distilled: z.boolean().nullish().transform((value) => value ?? false),
});

/** `config.json` of the text encoder: klein's is Qwen3, dev's is Mistral Small. */
const TEXT_CONFIG = z.unknown().transform((json, context) => {
  const result = (isMistral(json) ? MINISTRAL3_CONFIG : QWEN3_CONFIG).safeParse(json);
  if (result.success) return result.data;
  for (const { path, message } of result.error.issues) {
    context.addIssue({ code: "custom", path, message });
  }
  return z.NEVER;
});

export type Flux2TextConfig = z.output<typeof TEXT_CONFIG>;

/** States that the transformer sees side by side: `text_encoder_out_layers` in diffusers. */
export function textLayers({ model_type }: Pick<Flux2TextConfig, "model_type">): readonly number[] {
  return model_type === "mistral" ? [10, 20, 30] : [9, 18, 27];
}

const MAX_IMAGES = 10;
/** What the reference allows of input images: most pixels, shortest side, longest shape. */
const IMAGE_LIMITS = { maxPixels: 1024 * 1024, minSide: 64, maxAspect: 8 } as const;

export const FLUX2_PARTS = partsTable({
  components: {
    textEncoder: {
      classNames: ["Qwen3ForCausalLM", "Qwen3Model", ...MISTRAL_SMALL_CLASSES],
      config: TEXT_CONFIG,
    },
    transformer: { classNames: ["Flux2Transformer2DModel"], config: FLUX2_TRANSFORMER_CONFIG },
    vae: { classNames: ["AutoencoderKLFlux2"], config: FLUX2_VAE_CONFIG },
  },
  settings: FLUX2_PIPELINE_CONFIG,
  scheduler: { type: FlowScheduler },
  equal: [],
  fits: ({ transformer: { in_channels, joint_attention_dim }, textEncoder, vae }) => [
    {
      "transformer's in_channels": in_channels,
      "packed latents' width": vae.latent_channels * PACKED_SIDE ** 2,
    },
    {
      "transformer's joint_attention_dim": joint_attention_dim,
      [`width of ${textLayers(textEncoder).length} states of the text encoder`]:
        textEncoder.hidden_size * textLayers(textEncoder).length,
    },
  ],
  checkTokenizer(tokenizer, path) {
    // Of the two only Mistral's begins texts with a token.
    const [isMistral, count] = ["", "[INST]"].map((text) => tokenizer.encode(text).length);
    if (!isMistral) return requireQwenChat(tokenizer, path);
    if (count === 2) return;
    throw new SyntaxError(
      `Cannot use "${path}": it has no token "[INST]", which Mistral's chat template needs; fetch the tokenizer of the model again`,
    );
  },
});

export type Flux2Parts = PartsOf<typeof FLUX2_PARTS>;

export function flux2Info(
  { settings: { is_distilled }, transformer, vae }: Flux2Parts,
): FamilyInfo {
  const scale = scaleFactor(vae.config);
  const sizeMultiple = scale * PACKED_SIDE;
  const sampling = is_distilled
    ? { numInferenceSteps: 4, guidanceScale: 1 }
    : { numInferenceSteps: 50, guidanceScale: 4 };
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: { ...usualSize(scale), ...sampling },
    inpainting: { strength: 0.8 },
    sizeMultiple,
    maxImages: MAX_IMAGES,
    optionalSettings: [
      ...["maxSequenceLength", ...SAMPLING_CHOICES] as const,
      ...transformer.config.guidance_embeds ? ["trueCfgScale" as const] : [],
    ],
    imageLimits: { multiple: sizeMultiple, ...IMAGE_LIMITS },
  };
}
