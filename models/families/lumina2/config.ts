/** The components of a Lumina-Image 2.0 model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { KL_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { checkOutChannels, headFits, refuse } from "../../config.ts";
import { optionalPart, type PartsOf, partsTable } from "../../pipeline/components.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { GEMMA2_CONFIG } from "../../text_encoders/gemma2.ts";

/** Side of a patch, in latents. */
export const PATCH_SIDE = 2;
/** Base of the rotary frequencies. */
export const ROPE_THETA = 10000;
/** Axes of a token's position: place in the text, row, column. */
const AXES = 3;
const MAX_LAYERS = 1024;
const MAX_TIMESTEP_CHANNELS = 1024;
const MAX_PROMPT_TOKENS = 256;

const size = (value: number) => z.int().positive().default(value);
const axes = (values: number[]) => z.array(z.int().positive()).length(AXES).default(values);

export const LUMINA2_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("Lumina2Transformer2DModel").default("Lumina2Transformer2DModel"),
  patch_size: z.literal(PATCH_SIDE).default(PATCH_SIDE),
  in_channels: size(16),
  out_channels: z.int().positive().nullish(),
  hidden_size: size(2304),
  num_layers: z.int().positive().max(MAX_LAYERS).default(26),
  num_refiner_layers: z.int().nonnegative().max(MAX_LAYERS).default(2),
  num_attention_heads: size(24),
  num_kv_heads: size(8),
  multiple_of: size(256),
  ffn_dim_multiplier: z.number().positive().nullish(),
  norm_eps: z.number().positive().max(1).default(1e-5),
  axes_dim_rope: axes([32, 32, 32]),
  axes_lens: axes([300, 512, 512]),
  cap_feat_dim: size(1024),
}).superRefine(checkOutChannels).superRefine((config, context) => {
  const { hidden_size, num_attention_heads, num_kv_heads, axes_dim_rope } = config;
  const headDim = hidden_size / num_attention_heads;
  if (!headFits(headDim)) {
    refuse(context, "num_attention_heads", "it must give heads of a multiple of 4, up to 128");
  } else if (axes_dim_rope.reduce((sum, dim) => sum + dim, 0) !== headDim) {
    refuse(context, "axes_dim_rope", `its sum must be the width of a head, ${headDim}`);
  }
  if (num_attention_heads % num_kv_heads !== 0) {
    refuse(context, "num_kv_heads", "it must divide num_attention_heads");
  }
});

export type Lumina2TransformerConfig = z.output<typeof LUMINA2_TRANSFORMER_CONFIG>;

export function hiddenFeatures(
  { hidden_size, multiple_of, ffn_dim_multiplier }: Lumina2TransformerConfig,
): number {
  const wide = Math.trunc((ffn_dim_multiplier ?? 1) * 4 * hidden_size);
  return Math.ceil(wide / multiple_of) * multiple_of;
}

export function timestepChannels({ hidden_size }: Lumina2TransformerConfig): number {
  return Math.min(hidden_size, MAX_TIMESTEP_CHANNELS);
}

export const LUMINA2_PARTS = partsTable({
  components: {
    textEncoder: { classNames: ["Gemma2Model", "Gemma2ForCausalLM"], config: GEMMA2_CONFIG },
    transformer: { classNames: ["Lumina2Transformer2DModel"], config: LUMINA2_TRANSFORMER_CONFIG },
    vae: { classNames: ["AutoencoderKL"], config: KL_VAE_CONFIG },
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "AutoencoderTiny"),
  },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler, refused: ["use_dynamic_shifting"] },
  equal: [
    ["transformer.in_channels", "vae.latent_channels"],
    ["transformer.cap_feat_dim", "textEncoder.hidden_size"],
  ],
});

type Lumina2Parts = PartsOf<typeof LUMINA2_PARTS>;

export function lumina2Info({ vae }: Lumina2Parts): FamilyInfo {
  const scale = scaleFactor(vae.config);
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: { ...usualSize(scale), numInferenceSteps: 30, guidanceScale: 4, guidanceRescale: 1 },
    taskDefaults: { TI2I: { strength: 0.6 } },
    inpainting: { strength: 1 },
    sizeMultiple: scale * PATCH_SIDE,
    startsFromLatents: true,
    maxImages: 1,
    usualSequenceLength: MAX_PROMPT_TOKENS,
    optionalSettings: [
      ...["guidanceRescale", "guidanceEnd", "systemPrompt"] as const,
      ...["flowShift", "maxSequenceLength"] as const,
      ...SAMPLING_CHOICES,
    ],
  };
}
