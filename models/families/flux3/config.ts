/** The components of a FLUX.3 Image klein model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { FLUX2_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { checkRotaryAxes } from "../../config.ts";
import { type PartsOf, partsTable } from "../../pipeline/components.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { QWEN3_VL_CLASSES, QWEN3_VL_CONFIG } from "../../text_encoders/qwen3_vl.ts";
import { requireQwenChat } from "../../tokenizers/mod.ts";

/** Axes of a token's position: time, row, column, place in the text. */
const AXES = 4;
const MAX_LAYERS = 1024;
const MAX_PROMPT_TOKENS = 8192;
/** What a prompt may have unless a request says more; one that a language model wrote at length has fewer. */
const USUAL_PROMPT_TOKENS = 2048;
const MAX_IMAGES = 10;
/** Of several input images: most pixels, as in the reference; shortest side and longest shape, as in FLUX.2's. Of one: the reference's. */
const IMAGE_LIMITS = {
  ...{ maxPixels: 1024 * 1024, minSide: 64, maxAspect: 8 },
  alone: { maxPixels: 2048 * 2048, minSide: 64, maxSide: 4096 },
} as const;

const size = (value: number) => z.int().positive().default(value);

export const FLUX3_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("Flux3Transformer2DModel").default("Flux3Transformer2DModel"),
  in_channels: size(128),
  cond_in_channels: size(128),
  num_layers: z.int().positive().max(MAX_LAYERS).default(5),
  num_single_layers: z.int().positive().max(MAX_LAYERS).default(28),
  attention_head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  num_attention_heads: size(24),
  joint_attention_dim: size(20480),
  timestep_channels: z.int().positive().multipleOf(2).default(256),
  mlp_ratio: z.int("only whole ratios of the hidden width are supported").positive().default(3),
  axes_dims_rope: z.array(z.int().positive().multipleOf(2)).length(AXES).default([32, 32, 32, 32]),
  rope_theta: z.number().positive().default(10000),
  eps: z.number().positive().max(1).default(1e-6),
  /** Distilled to few steps: it is told where each step goes, too. */
  flow_map: z.boolean().default(false),
}).superRefine(checkRotaryAxes);

export type Flux3TransformerConfig = z.output<typeof FLUX3_TRANSFORMER_CONFIG>;

/** Layers of the text encoder whose states the transformer sees side by side: every fourth. */
export function textLayers(width: number, hiddenSize: number): number[] {
  return Array.from({ length: width / hiddenSize }, (_, i) => 4 + 4 * i);
}

export const FLUX3_PARTS = partsTable({
  components: {
    textEncoder: { classNames: QWEN3_VL_CLASSES, config: QWEN3_VL_CONFIG },
    transformer: { classNames: ["Flux3Transformer2DModel"], config: FLUX3_TRANSFORMER_CONFIG },
    vae: { classNames: ["AutoencoderKLFlux2"], config: FLUX2_VAE_CONFIG },
  },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler, refused: ["use_dynamic_shifting"] },
  equal: [["transformer.in_channels", "transformer.cond_in_channels"]],
  fits: ({ transformer, textEncoder: { hidden_size, num_hidden_layers }, vae }) => {
    const { in_channels, joint_attention_dim: width } = transformer;
    const states = Math.min(Math.ceil(width / hidden_size), Math.floor(num_hidden_layers / 4));
    return [
      {
        "transformer's in_channels": in_channels,
        "packed latents' width": vae.latent_channels * PACKED_SIDE ** 2,
      },
      {
        "transformer's joint_attention_dim": width,
        [`width of ${states} states of the text encoder`]: states * hidden_size,
      },
    ];
  },
  checkTokenizer: requireQwenChat,
});

type Flux3Parts = PartsOf<typeof FLUX3_PARTS>;

export function flux3Info({ transformer, vae }: Flux3Parts): FamilyInfo {
  const scale = scaleFactor(vae.config);
  const sizeMultiple = scale * PACKED_SIDE;
  const sampling = transformer.config.flow_map
    ? { numInferenceSteps: 16, guidanceScale: 1 }
    : { numInferenceSteps: 50, guidanceScale: 3.5 };
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: { ...usualSize(scale), ...sampling },
    inpainting: { strength: 0.8 },
    sizeMultiple,
    maxImages: MAX_IMAGES,
    maxSequenceLength: MAX_PROMPT_TOKENS,
    usualSequenceLength: USUAL_PROMPT_TOKENS,
    optionalSettings: ["flowShift", "maxSequenceLength", ...SAMPLING_CHOICES],
    imageLimits: { multiple: sizeMultiple, ...IMAGE_LIMITS },
  };
}
