/** The components of a Chroma model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { KL_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { TINY_DECODER_CONFIG, tinyDecoderFit } from "../../autoencoders/tiny/config.ts";
import { type PartsOf, partsTable } from "../../pipeline/components.ts";
import type { FamilyInfo } from "../../pipeline/family_info.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { T5_CONFIG } from "../../text_encoders/t5.ts";

/** Far more than any model has. */
const MAX_LAYERS = 1024;

/** `transformer/config.json` of `ChromaTransformer2DModel`. */
export const CHROMA_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("ChromaTransformer2DModel").default("ChromaTransformer2DModel"),
  patch_size: z.literal(1).default(1),
  in_channels: z.int().positive().multipleOf(4).default(64),
  out_channels: z.int().positive().nullish(),
  num_layers: z.int().positive().max(MAX_LAYERS).default(19),
  num_single_layers: z.int().positive().max(MAX_LAYERS).default(38),
  attention_head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  num_attention_heads: z.int().positive().default(24),
  joint_attention_dim: z.int().positive().default(4096),
  axes_dims_rope: z.array(z.int().positive().multipleOf(2)).length(3).default([16, 56, 56]),
  approximator_num_channels: z.int().positive().multipleOf(8).default(64),
  approximator_hidden_dim: z.int().positive().default(5120),
  approximator_layers: z.int().positive().max(MAX_LAYERS).default(5),
}).superRefine(({ axes_dims_rope, attention_head_dim, in_channels, out_channels }, context) => {
  const refuse = (key: string, message: string) =>
    context.addIssue({ code: "custom", path: [key], message });
  if (axes_dims_rope.reduce((sum, dim) => sum + dim, 0) !== attention_head_dim) {
    refuse("axes_dims_rope", `its sum must be attention_head_dim = ${attention_head_dim}`);
  }
  if ((out_channels ?? in_channels) !== in_channels) {
    refuse("out_channels", `it must be in_channels = ${in_channels}`);
  }
});

export type ChromaTransformerConfig = z.output<typeof CHROMA_TRANSFORMER_CONFIG>;

/** Sides of an image by default, in latents. */
const DEFAULT_SIDE = 128;

export const CHROMA_PARTS = partsTable({
  components: {
    textEncoder: { classNames: ["T5EncoderModel"], config: T5_CONFIG },
    transformer: { classNames: ["ChromaTransformer2DModel"], config: CHROMA_TRANSFORMER_CONFIG },
    vae: { classNames: ["AutoencoderKL"], config: KL_VAE_CONFIG },
    tinyDecoder: { classNames: ["AutoencoderTiny"], config: TINY_DECODER_CONFIG, isOptional: true },
  },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler },
  fits: ({ transformer: { in_channels, joint_attention_dim }, textEncoder, vae, tinyDecoder }) => [
    [
      "transformer's in_channels",
      in_channels,
      "packed latents' width",
      vae.latent_channels * PACKED_SIDE ** 2,
    ],
    [
      "transformer's joint_attention_dim",
      joint_attention_dim,
      "text encoder's d_model",
      textEncoder.d_model,
    ],
    ...tinyDecoderFit(tinyDecoder, { channels: vae.latent_channels, side: scaleFactor(vae) }),
  ],
});

type ChromaParts = PartsOf<typeof CHROMA_PARTS>;

/** What its models can do, with the defaults of the published ones. */
export function chromaInfo({ vae, scheduler }: ChromaParts): FamilyInfo {
  const scale = scaleFactor(vae.config);
  const side = DEFAULT_SIDE * scale;
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: { width: side, height: side, numInferenceSteps: 40, guidanceScale: 3 },
    taskDefaults: { TI2I: { strength: 0.6 } },
    inpainting: { strength: 0.6 },
    sizeMultiple: scale * PACKED_SIDE,
    maxImages: 1,
    optionalSettings: [
      "maxSequenceLength",
      ...SAMPLING_CHOICES,
      ...scheduler.usesDynamicShifting ? [] : ["flowShift" as const],
    ],
  };
}
