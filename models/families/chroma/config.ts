/** The components of a Chroma model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { KL_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { checkOutChannels, checkRotaryAxes } from "../../config.ts";
import { optionalPart, type PartsOf, partsTable } from "../../pipeline/components.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { T5_CONFIG } from "../../text_encoders/t5.ts";
import { FLUX_SIZES, MAX_LAYERS } from "../flux1/config.ts";

export const CHROMA_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("ChromaTransformer2DModel").default("ChromaTransformer2DModel"),
  ...FLUX_SIZES,
  out_channels: z.int().positive().nullish(),
  num_single_layers: z.int().positive().max(MAX_LAYERS).default(38),
  approximator_num_channels: z.int().positive().multipleOf(8).default(64),
  approximator_hidden_dim: z.int().positive().default(5120),
  approximator_layers: z.int().positive().max(MAX_LAYERS).default(5),
}).superRefine(checkRotaryAxes).superRefine(checkOutChannels);

export type ChromaTransformerConfig = z.output<typeof CHROMA_TRANSFORMER_CONFIG>;

export const CHROMA_PARTS = partsTable({
  components: {
    textEncoder: { classNames: ["T5EncoderModel"], config: T5_CONFIG },
    transformer: { classNames: ["ChromaTransformer2DModel"], config: CHROMA_TRANSFORMER_CONFIG },
    vae: { classNames: ["AutoencoderKL"], config: KL_VAE_CONFIG },
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "AutoencoderTiny"),
  },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler },
  equal: [["transformer.joint_attention_dim", "textEncoder.d_model"]],
  fits: ({ transformer, vae }) => [
    {
      "transformer's in_channels": transformer.in_channels,
      "packed latents' width": vae.latent_channels * PACKED_SIDE ** 2,
    },
  ],
});

type ChromaParts = PartsOf<typeof CHROMA_PARTS>;

export function chromaInfo({ vae, scheduler }: ChromaParts): FamilyInfo {
  const scale = scaleFactor(vae.config);
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: { ...usualSize(scale), numInferenceSteps: 40, guidanceScale: 3 },
    taskDefaults: { TI2I: { strength: 0.6 } },
    inpainting: { strength: 0.6 },
    sizeMultiple: scale * PACKED_SIDE,
    startsFromLatents: true,
    maxImages: 1,
    optionalSettings: [
      "maxSequenceLength",
      ...SAMPLING_CHOICES,
      ...scheduler.usesDynamicShifting ? [] : ["flowShift" as const],
    ],
  };
}
