/** The components of an Ideogram 4 model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import type { TensorSource } from "../../../runtime/mod.ts";
import { FLUX2_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { viewLayout } from "../../checkpoints/layout_view.ts";
import { type PartsOf, partsTable, sameSizes } from "../../pipeline/components.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { QWEN3_VL_CLASSES, QWEN3_VL_CONFIG } from "../../text_encoders/qwen3_vl.ts";
import { requireQwenChat } from "../../tokenizers/mod.ts";
import { hasOriginalNames, ORIGINAL_IDEOGRAM4 } from "./names.ts";

/** Axes of a token's position: place in the text, row, column. */
export const AXES = 3;
const MAX_PROMPT_TOKENS = 2048;

const size = (value: number) => z.int().positive().default(value);

export const IDEOGRAM4_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("Ideogram4Transformer2DModel").default("Ideogram4Transformer2DModel"),
  in_channels: size(128),
  num_layers: z.int().positive().max(1024).default(34),
  attention_head_dim: z.int().positive().multipleOf(4).max(512).default(256),
  num_attention_heads: size(18),
  intermediate_size: size(12288),
  adaln_dim: size(512),
  llm_features_dim: size(53248),
  rope_theta: z.number().positive().default(5e6),
  mrope_section: z.array(z.int().nonnegative()).length(AXES).default([24, 20, 20]),
  norm_eps: z.number().positive().max(1).default(1e-5),
});

export type Ideogram4TransformerConfig = z.output<typeof IDEOGRAM4_TRANSFORMER_CONFIG>;

/** Layers of the text encoder whose states the transformer sees: after every third, and after the last of 36. */
export const TEXT_LAYERS: readonly number[] = [1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 34, 36];

const TRANSFORMER = {
  classNames: ["Ideogram4Transformer2DModel"],
  config: IDEOGRAM4_TRANSFORMER_CONFIG,
  // The published folders have the names of the model's authors.
  view: (tensors: TensorSource) =>
    hasOriginalNames(tensors) ? viewLayout(tensors, ORIGINAL_IDEOGRAM4) : tensors,
};

export const IDEOGRAM4_PARTS = partsTable({
  components: {
    textEncoder: { classNames: QWEN3_VL_CLASSES, config: QWEN3_VL_CONFIG },
    transformer: TRANSFORMER,
    /** Makes images without a prompt, from which guidance leads away: `unconditional_transformer` in diffusers. */
    transformer2: { ...TRANSFORMER, isOptional: true },
    vae: { classNames: ["AutoencoderKLFlux2"], config: FLUX2_VAE_CONFIG },
  },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler, refused: ["use_dynamic_shifting"] },
  equal: [
    ...sameSizes("transformer", "transformer2", ["in_channels"]),
  ],
  fits: ({ transformer, transformer2, textEncoder, vae }) => {
    if (!transformer2) {
      throw new TypeError(
        "Cannot use the model: guidance needs a transformer without a prompt, and it has none; name one with --transformer-2",
      );
    }
    return [
      {
        "transformer's in_channels": transformer.in_channels,
        "packed latents' width": vae.latent_channels * PACKED_SIDE ** 2,
      },
      {
        "transformer's llm_features_dim": transformer.llm_features_dim,
        [`width of ${TEXT_LAYERS.length} states of the text encoder`]: textEncoder.hidden_size *
          TEXT_LAYERS.length,
      },
    ];
  },
  checkTokenizer: requireQwenChat,
});

type Ideogram4Parts = PartsOf<typeof IDEOGRAM4_PARTS>;

export function ideogram4Info({ vae }: Ideogram4Parts): FamilyInfo {
  const scale = scaleFactor(vae.config);
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: { ...usualSize(scale), numInferenceSteps: 48, guidanceScale: 7 },
    taskDefaults: { TI2I: { strength: 0.6 } },
    inpainting: { strength: 0.6 },
    sizeMultiple: scale * PACKED_SIDE,
    maxImages: 1,
    maxSequenceLength: MAX_PROMPT_TOKENS,
    usualSequenceLength: MAX_PROMPT_TOKENS,
    optionalSettings: ["flowShift", "maxSequenceLength", ...SAMPLING_CHOICES],
  };
}
