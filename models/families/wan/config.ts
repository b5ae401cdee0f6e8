/** The components of a Wan model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { WAN_VAE_CONFIG } from "../../autoencoders/wan/config.ts";
import { type PartsOf, partsTable } from "../../pipeline/components.ts";
import { UMT5_CONFIG } from "../../text_encoders/umt5.ts";
import type {
  FamilyInfo,
  PipelineDefaults,
  PipelineTask,
  PipelineTaskDefaults,
} from "../../pipeline/types.ts";

/** Largest side of a patch, in latents; models use 2. */
const MAX_PATCH = 16;

/** Longest side that a model may say it was made for, in pixels. */
const MAX_NATIVE_SIDE = 2048;

/** `transformer/config.json` of `WanTransformer3DModel`. */
export const WAN_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("WanTransformer3DModel").default("WanTransformer3DModel"),
  patch_size: z.tuple([
    z.literal(1),
    z.int().positive().max(MAX_PATCH),
    z.int().positive().max(MAX_PATCH),
  ]).default([1, 2, 2]),
  num_attention_heads: z.int().positive().default(40),
  attention_head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  in_channels: z.int().positive().default(16),
  out_channels: z.int().positive().default(16),
  text_dim: z.int().positive().default(4096),
  freq_dim: z.int().positive().multipleOf(2).default(256),
  ffn_dim: z.int().positive().default(13824),
  num_layers: z.int().positive().default(40),
  cross_attn_norm: z.boolean().default(true),
  qk_norm: z.literal("rms_norm_across_heads").default("rms_norm_across_heads"),
  eps: z.number().positive().max(1).default(1e-6),
  image_dim: z.null("image-conditioned Wan 2.1 checkpoints (image_dim) are not supported").default(
    null,
  ),
  added_kv_proj_dim: z.null(
    "image-conditioned Wan 2.1 checkpoints (added_kv_proj_dim) are not supported",
  )
    .default(null),
  rope_max_seq_len: z.int().positive().default(1024),
});

/** Parsed {@linkcode WAN_TRANSFORMER_CONFIG}. */
export type WanTransformerConfig = z.output<typeof WAN_TRANSFORMER_CONFIG>;

/** The keys of `model_index.json` that change what the pipeline does. */
const WAN_PIPELINE_CONFIG = z.object({
  /** TI2V: every token has its own timestep, so that the first frame can be given clean. */
  expand_timesteps: z.boolean().nullish().transform((value) => value ?? false),
  boundary_ratio: z.null("two-stage Wan 2.2 checkpoints (boundary_ratio) are not supported")
    .default(null),
  /** Ours: shortest and longest side that the model was trained for, where it draws much larger ones badly. */
  _native_sides: z.object({
    least: z.int().positive(),
    most: z.int().positive().max(MAX_NATIVE_SIDE),
  }).optional(),
});

/** What checkpoints of a size were made for. */
interface WanDefaults {
  /** Sizes and settings of a request that leaves them out. */
  readonly defaults: PipelineDefaults;
  /** What suits a task better. */
  readonly taskDefaults: Readonly<Partial<Record<PipelineTask, PipelineTaskDefaults>>>;
  /** Whether the last frame of a short video that begins with an image is that image, edited. */
  readonly edits: boolean;
}

/** Sizes and settings that checkpoints of a width were made for, largest first. */
const BY_DIM: readonly (WanDefaults & { readonly minDim: number })[] = [
  // Wan 2.1 14B
  { minDim: 5120, ...video(1280, 720, 81, 16) },
  // Wan 2.2 TI2V 5B
  { minDim: 3072, ...video(1280, 704, 121, 24) },
  // Wan 2.1 1.3B
  { minDim: 1536, ...video(832, 480, 81, 16) },
  // Small models that this project trains.
  {
    minDim: 0,
    defaults: settings(96, 96, 1, 8, 20, 3.5),
    taskDefaults: {
      T2V: { numFrames: 9 },
      I2V: { numFrames: 9 },
      TI2I: { guidanceScale: 1.5 },
      V2V: { strength: 0.8 },
    },
    edits: true,
  },
];

/** Those of a published checkpoint; the strength is the reference's. */
function video(width: number, height: number, numFrames: number, fps: number): WanDefaults {
  return {
    defaults: settings(width, height, numFrames, fps, 50, 5),
    taskDefaults: { V2V: { strength: 0.8 } },
    edits: false,
  };
}

function settings(
  width: number,
  height: number,
  numFrames: number,
  fps: number,
  numInferenceSteps: number,
  guidanceScale: number,
): PipelineDefaults {
  return { width, height, numFrames, fps, numInferenceSteps, guidanceScale, negativePrompt: "" };
}

/** Sizes and settings that a checkpoint was made for, by the width of its transformer. */
function wanDefaults(config: WanTransformerConfig): WanDefaults {
  const dim = hiddenSize(config);
  return BY_DIM.find(({ minDim }) => dim >= minDim)!;
}

/** Width of the tokens inside of the transformer. */
export function hiddenSize(
  { num_attention_heads, attention_head_dim }: WanTransformerConfig,
): number {
  return num_attention_heads * attention_head_dim;
}

/** The components. */
export const WAN_PARTS = partsTable({
  transformer: { classNames: ["WanTransformer3DModel"], config: WAN_TRANSFORMER_CONFIG },
  textEncoder: { classNames: ["UMT5EncoderModel"], config: UMT5_CONFIG },
  vae: { classNames: ["AutoencoderKLWan"], config: WAN_VAE_CONFIG },
  settings: WAN_PIPELINE_CONFIG,
  // Wan's pipelines give neither the size that decides the shift nor noise at every step.
  scheduler: { refused: ["use_dynamic_shifting", "stochastic_sampling"] },
  fits: ({ transformer: { in_channels, out_channels, text_dim }, textEncoder, vae }) => [
    ["transformer's in_channels", in_channels, "autoencoder's z_dim", vae.z_dim],
    ["transformer's out_channels", out_channels, "autoencoder's z_dim", vae.z_dim],
    ["transformer's text_dim", text_dim, "text encoder's d_model", textEncoder.d_model],
  ],
});

/** The opened components. */
type WanParts = PartsOf<typeof WAN_PARTS>;

/** What its models can do, with the defaults of the published ones. */
export function wanInfo(
  { settings, transformer: { config }, vae }: WanParts,
): FamilyInfo {
  const { expand_timesteps: takesImages, _native_sides: nativeSides } = settings;
  const { scale_factor_spatial: spatial, scale_factor_temporal: temporal } = vae.config;
  const { defaults, taskDefaults, edits } = wanDefaults(config);
  const tasks: PipelineTask[] = ["T2I", "T2V"];
  if (takesImages) tasks.push("I2V");
  if (takesImages && edits) tasks.push("TI2I");
  tasks.push("V2V");
  return {
    supportedTasks: tasks,
    defaultTask: defaults.numFrames === 1 ? "T2I" : "T2V",
    defaults,
    taskDefaults: Object.fromEntries(
      Object.entries(taskDefaults).filter(([task]) => tasks.includes(task as PipelineTask)),
    ),
    sizeMultiple: spatial * Math.max(config.patch_size[1], config.patch_size[2]),
    ...(nativeSides && { nativeSides }),
    frameMultiple: temporal,
    maxFrames: 1 + temporal * (config.rope_max_seq_len - 1),
    maxImages: takesImages ? 1 : 0,
    optionalSettings: ["flowShift", "maxSequenceLength"],
  };
}
