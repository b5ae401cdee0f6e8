/** The components of an Ovis-Image model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { KL_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { viewLayout } from "../../checkpoints/layout_view.ts";
import { checkOutChannels, checkRotaryAxes } from "../../config.ts";
import { optionalPart, type PartsOf, partsTable } from "../../pipeline/components.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { QWEN3_CONFIG } from "../../text_encoders/qwen3.ts";
import { requireQwenChat } from "../../tokenizers/mod.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { FLUX_SIZES, MAX_LAYERS } from "../flux1/config.ts";
import { DIFFUSERS_OVIS_IMAGE } from "./names.ts";

const MAX_PROMPT_TOKENS = 256;

export const OVIS_IMAGE_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("OvisImageTransformer2DModel").default("OvisImageTransformer2DModel"),
  ...FLUX_SIZES,
  out_channels: z.int().positive().nullish(),
  num_layers: z.int().positive().max(MAX_LAYERS).default(6),
  num_single_layers: z.int().positive().max(MAX_LAYERS).default(27),
  joint_attention_dim: z.int().positive().default(2048),
}).superRefine(checkRotaryAxes).superRefine(checkOutChannels);

export type OvisImageTransformerConfig = z.output<typeof OVIS_IMAGE_TRANSFORMER_CONFIG>;

export const OVIS_IMAGE_PARTS = partsTable({
  components: {
    textEncoder: { classNames: ["Qwen3Model", "Qwen3ForCausalLM"], config: QWEN3_CONFIG },
    transformer: {
      classNames: ["OvisImageTransformer2DModel"],
      config: OVIS_IMAGE_TRANSFORMER_CONFIG,
      view: (tensors: TensorSource) => viewLayout(tensors, DIFFUSERS_OVIS_IMAGE),
    },
    vae: { classNames: ["AutoencoderKL"], config: KL_VAE_CONFIG },
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "AutoencoderTiny"),
  },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler },
  equal: [["transformer.joint_attention_dim", "textEncoder.hidden_size"]],
  fits: ({ transformer, vae }) => [
    {
      "transformer's in_channels": transformer.in_channels,
      "packed latents' width": vae.latent_channels * PACKED_SIDE ** 2,
    },
  ],
  checkTokenizer: requireQwenChat,
});

type OvisImageParts = PartsOf<typeof OVIS_IMAGE_PARTS>;

export function ovisImageInfo({ vae, scheduler }: OvisImageParts): FamilyInfo {
  const scale = scaleFactor(vae.config);
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: { ...usualSize(scale), numInferenceSteps: 50, guidanceScale: 5 },
    taskDefaults: { TI2I: { strength: 0.6 } },
    inpainting: { strength: 0.6 },
    sizeMultiple: scale * PACKED_SIDE,
    startsFromLatents: true,
    maxImages: 1,
    maxSequenceLength: MAX_PROMPT_TOKENS,
    optionalSettings: [
      "maxSequenceLength",
      ...SAMPLING_CHOICES,
      ...scheduler.usesDynamicShifting ? [] : ["flowShift" as const],
    ],
  };
}
