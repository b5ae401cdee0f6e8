/** The components of a Wan model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { WAN_VAE_CONFIG, type WanVaeConfig } from "../../autoencoders/wan/config.ts";
import { CLIP_VISION_CONFIG, clipTokenCount } from "../../image_encoders/clip_vision.ts";
import {
  optionalPart,
  type PartsOf,
  partsTable,
  sameSizes,
  type SizeCheck,
} from "../../pipeline/components.ts";
import { FlowScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { DMD_STEPS } from "../../schedulers/names.ts";
import type { StepRange } from "../../schedulers/solver.ts";
import { UMT5_CONFIG } from "../../text_encoders/umt5.ts";
import type { FamilyInfo } from "../../pipeline/family_info.ts";
import type {
  PipelineDefaults,
  PipelineRequest,
  TaskDefaults,
  TaskType,
} from "../../pipeline/types.ts";
import { hiddenSize } from "../../config.ts";
import { withFullAttention } from "./sparse_linear_attention.ts";
import {
  CHRONO_EDIT,
  CHRONO_EDIT_TRANSFORMER,
  isForced,
  RELATIVES,
  SKY_REELS_TRANSFORMER,
  withSkyReelsSizes,
} from "./relatives.ts";
import { SettingError } from "../../setting_error.ts";

/** Largest side of a patch, in latents; models use 2. */
const MAX_PATCH = 16;

/** Longest side that a model may say it was made for, in pixels. */
const MAX_NATIVE_SIDE = 2048;

/** Layers of Wan's 14B model that VACE adds its control to, where a file does not say. */
const VACE_LAYERS = [0, 5, 10, 15, 20, 25, 30, 35];

const TRANSFORMER_CLASSES = [
  "WanTransformer3DModel",
  "WanVACETransformer3DModel",
  SKY_REELS_TRANSFORMER,
  CHRONO_EDIT_TRANSFORMER,
] as const;

const TRANSFORMER_FILE = z.object({
  _class_name: z.enum(TRANSFORMER_CLASSES).default("WanTransformer3DModel"),
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
  num_layers: z.int().positive().max(1024).default(40),
  cross_attn_norm: z.boolean().default(true),
  qk_norm: z.literal("rms_norm_across_heads").default("rms_norm_across_heads"),
  eps: z.number().positive().max(1).default(1e-6),
  image_dim: z.int().positive().nullable().default(null),
  added_kv_proj_dim: z.int().positive().nullable().default(null),
  /** States of a first and a last image together, which then have learned positions; null where they have none. */
  pos_embed_seq_len: z.int().positive().multipleOf(2).nullable().default(null),
  rope_max_seq_len: z.int().positive().default(1024),
  vace_layers: z.array(z.int().nonnegative()).optional(),
  vace_in_channels: z.int().positive().default(96),
  /** SkyReels V2: whether it is told the frames per second, and how many frames do not see later ones. */
  inject_sample_info: z.boolean().default(false),
  num_frame_per_block: z.literal(1).default(1),
  /** TurboWan says "sla": sparse-linear attention. */
  attention_type: z.literal("original").default("original"),
  /** ChronoEdit: positions from the image to its edit, both counted. */
  rope_temporal_skip_len: z.int().min(2).max(1024).default(8),
});

export const WAN_TRANSFORMER_CONFIG = z.preprocess(
  withSkyReelsSizes,
  TRANSFORMER_FILE,
).transform(({ vace_layers, ...config }) => ({
  ...config,
  vace_layers: config._class_name === "WanVACETransformer3DModel" ? vace_layers ?? VACE_LAYERS : [],
})).refine(
  ({ vace_layers: layers, num_layers }) =>
    layers.every((layer, i) =>
      i === 0 ? layer === 0 : layer > layers[i - 1]! && layer < num_layers
    ),
  { path: ["vace_layers"], message: "it must ascend from 0 and stay below num_layers" },
);

export type WanTransformerConfig = z.output<typeof WAN_TRANSFORMER_CONFIG>;

const WAN_PIPELINE_CONFIG = z.object({
  /** TI2V: every token has its own timestep, so that the first frame can be given clean. */
  expand_timesteps: z.boolean().nullish().transform((value) => value ?? false),
  boundary_ratio: z.number().min(0).max(1).nullable().default(null),
  /** Ours: shortest and longest side that the model was trained for, where it draws much larger ones badly. */
  _native_sides: z.object({
    least: z.int().positive(),
    most: z.int().positive().max(MAX_NATIVE_SIDE),
  }).optional(),
  /** Ours: whether the model learned to end a video with an image, which lies as a clean latent frame before the video. */
  _takes_last_frame: z.boolean().default(false),
});

const TRAIN_TIMESTEPS = 1000;

/** Frames of a clip that a continued one begins with, where it has so many. */
export const CONTINUED_FRAMES = 5;

const MAX_REFERENCES = 4;

/** Defaults of Wan 2.2 A14B: those of its team's own configuration. */
const EXPERT_DEFAULTS = { numInferenceSteps: 40, guidanceScale: 4, guidanceScale2: 3 } as const;
const EXPERT_IMAGE_DEFAULTS = {
  numInferenceSteps: 40,
  guidanceScale: 3.5,
  guidanceScale2: 3.5,
} as const;

/** The class of FastWan's pipelines: distilled by DMD, without guidance. */
export const DMD_PIPELINE = "WanDMDPipeline";

/** Defaults of FastWan: those of FastVideo's own configuration. */
const DMD_DEFAULTS = { numInferenceSteps: DMD_STEPS, guidanceScale: 1, sampler: "dmd" } as const;
const DMD_SMALL_DEFAULTS = { ...DMD_DEFAULTS, width: 832, height: 448, numFrames: 61 } as const;

interface WanDefaults {
  readonly defaults: PipelineDefaults;
  readonly taskDefaults: Readonly<Partial<Record<TaskType, TaskDefaults>>>;
  /** Whether the last frame of a short video that begins with an image is that image, edited. */
  readonly edits: boolean;
}

const BY_DIM: readonly (WanDefaults & { readonly minDim: number })[] = [
  // Wan 2.1 14B
  { minDim: 5120, ...video(settings(1280, 720, 81, 16)) },
  // Wan 2.2 TI2V 5B
  { minDim: 3072, ...video(settings(1280, 704, 121, 24)) },
  // Wan 2.1 1.3B
  { minDim: 1536, ...video(settings(832, 480, 81, 16)) },
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

function video(defaults: PipelineDefaults): WanDefaults {
  return { defaults, taskDefaults: { V2V: { strength: 0.8 } }, edits: false };
}

function settings(
  width: number,
  height: number,
  numFrames: number,
  fps: number,
  numInferenceSteps = 50,
  guidanceScale = 5,
): PipelineDefaults {
  return { width, height, numFrames, fps, numInferenceSteps, guidanceScale, negativePrompt: "" };
}

function wanDefaults(config: WanTransformerConfig): WanDefaults {
  const dim = hiddenSize(config);
  return BY_DIM.find(({ minDim }) => dim >= minDim)!;
}

const TRANSFORMER = {
  classNames: TRANSFORMER_CLASSES,
  config: WAN_TRANSFORMER_CONFIG,
  view: withFullAttention,
};

export const WAN_PARTS = partsTable({
  components: {
    textEncoder: { classNames: ["UMT5EncoderModel"], config: UMT5_CONFIG },
    imageEncoder: optionalPart(
      CLIP_VISION_CONFIG,
      "CLIPVisionModel",
      "CLIPVisionModelWithProjection",
    ),
    transformer: TRANSFORMER,
    /** The expert for low noise; the other transformer then is the one for high noise. */
    transformer2: { ...TRANSFORMER, isOptional: true },
    /** The critic of distillation by distribution matching: few checkpoints keep it, for whoever trains on. */
    fakeScoreTransformer: { ...TRANSFORMER, isOptional: true, isIdle: true },
    vae: { classNames: ["AutoencoderKLWan"], config: WAN_VAE_CONFIG },
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "TAEHV"),
  },
  settings: WAN_PIPELINE_CONFIG,
  // Wan's pipelines do not give the size that decides the shift.
  scheduler: { type: FlowScheduler, refused: ["use_dynamic_shifting"] },
  equal: [
    ["transformer.out_channels", "vae.z_dim"],
    ["transformer.text_dim", "textEncoder.d_model"],
    ["transformer.image_dim", "imageEncoder.hidden_size"],
    ...sameSizes("transformer", "transformer2", [
      "in_channels",
      "out_channels",
      "text_dim",
      "freq_dim",
      "num_layers",
      "num_attention_heads",
      "attention_head_dim",
    ]),
  ],
  fits: (
    { transformer, vae, transformer2, imageEncoder },
    { boundary_ratio: boundary },
    className,
  ) => {
    const { image_dim, pos_embed_seq_len: positions, vace_in_channels, vace_layers } = transformer;
    checkEdits(transformer, className);
    if (transformer.inject_sample_info && !isForced(className)) {
      throw new TypeError(
        `Cannot use the model: its transformer's inject_sample_info is true, and a ${className} tells it no frames per second`,
      );
    }
    if (boundary !== null && !transformer2) {
      throw new TypeError(
        `Cannot use the model: its boundary_ratio is ${boundary}, for two transformers, and it has no transformer_2; ` +
          "name one with --transformer-2",
      );
    }
    if (image_dim !== null && !imageEncoder) {
      throw new TypeError(
        "Cannot use the model: its transformer looks at images through an image encoder, and it has none; " +
          "name one with --image-encoder",
      );
    }
    const checks: SizeCheck[] = [
      { "transformer's in_channels": transformer.in_channels, ...channelsFor(transformer, vae) },
    ];
    if (vace_layers.length > 0) {
      checks.push({
        "transformer's vace_in_channels": vace_in_channels,
        "autoencoder's, with masks": 2 * vae.z_dim + vae.scale_factor_spatial ** 2,
      });
    }
    if (positions !== null && imageEncoder) {
      checks.push({
        "transformer's pos_embed_seq_len": positions,
        "image encoder's states": 2 * clipTokenCount(imageEncoder),
      });
    }
    return checks;
  },
});

function checkEdits(
  { _class_name: transformer, in_channels, out_channels }: WanTransformerConfig,
  className: string,
): void {
  const isEditor = className === CHRONO_EDIT;
  if (transformer === CHRONO_EDIT_TRANSFORMER && !isEditor) {
    throw new TypeError(
      `Cannot use the model: its transformer is a ${transformer}, for a ${CHRONO_EDIT}, and the model is a ${className}`,
    );
  }
  if (isEditor && in_channels === out_channels) {
    throw new TypeError(
      `Cannot use the model: a ${CHRONO_EDIT} sees its image in channels beside the sample, and its transformer has none`,
    );
  }
}

function channelsFor(
  { in_channels: given }: WanTransformerConfig,
  { z_dim, scale_factor_temporal: temporal }: WanVaeConfig,
): SizeCheck {
  const withFrames = 2 * z_dim + temporal;
  return given === withFrames
    ? { "autoencoder's, twice, with a mask": withFrames }
    : { "autoencoder's z_dim": z_dim };
}

export type WanParts = PartsOf<typeof WAN_PARTS>;

export interface WanSight {
  readonly frames: "tokens" | "channels" | "control" | undefined;
  readonly images: readonly [least: number, most: number];
}

export function wanSight({ className, settings, transformer: { config } }: WanParts): WanSight {
  if (config.vace_layers.length > 0) return { frames: "control", images: [1, 2] };
  if (config.in_channels !== config.out_channels) {
    // Without positions for two, the image branch takes one; with them, two and no other number.
    const hasBranch = config.image_dim !== null;
    const images = !hasBranch
      ? [1, 2] as const
      : config.pos_embed_seq_len
      ? [2, 2] as const
      : [1, 1] as const;
    return { frames: "channels", images };
  }
  return settings.expand_timesteps || isForced(className)
    ? { frames: "tokens", images: [1, settings._takes_last_frame ? 2 : 1] }
    : { frames: undefined, images: [0, 0] };
}

export function wanInfo(parts: WanParts): FamilyInfo {
  const { className, settings, transformer: { config }, vae, imageEncoder, transformer2 } = parts;
  const { _native_sides: nativeSides } = settings;
  const { scale_factor_spatial: spatial, scale_factor_temporal: temporal } = vae.config;
  const { frames, images: [minImages, maxImages] } = wanSight(parts);
  const usual = wanDefaults(config);
  const { defaults, taskDefaults, edits } = RELATIVES[className]
    ? video({ ...usual.defaults, ...RELATIVES[className] })
    : usual;
  const isEditor = className === CHRONO_EDIT;
  const makesFromText = frames !== "channels";
  const seesImages = config.image_dim !== null;
  const can: Readonly<Partial<Record<TaskType, boolean>>> = {
    T2I: makesFromText,
    T2V: makesFromText,
    I2V: frames !== undefined && !isEditor,
    TI2I: isEditor || frames === "tokens" && edits,
    // The bundled model learned to go on from one frame only, and those for a first and a last one need both.
    F2V: frames !== undefined && !isEditor && !nativeSides && minImages < 2,
    // Last of those with a video: what it is loaded for has all that the others use.
    V2V: makesFromText,
  };
  const tasks = (Object.keys(can) as TaskType[]).filter((task) => can[task]);
  const own: PipelineDefaults = {
    ...defaults,
    ...(transformer2 && (makesFromText ? EXPERT_DEFAULTS : EXPERT_IMAGE_DEFAULTS)),
    ...(className === DMD_PIPELINE && (frames === "tokens" ? DMD_DEFAULTS : DMD_SMALL_DEFAULTS)),
  };
  return {
    supportedTasks: tasks,
    defaultTask: makesFromText ? (own.numFrames === 1 ? "T2I" : "T2V") : isEditor ? "TI2I" : "I2V",
    defaults: own,
    taskDefaults: Object.fromEntries(
      Object.entries(taskDefaults).filter(([task]) =>
        tasks.includes(task as TaskType) && !(task === "V2V" && frames === "control")
      ),
    ),
    sizeMultiple: spatial * Math.max(config.patch_size[1], config.patch_size[2]),
    ...(nativeSides && { nativeSides }),
    frameMultiple: isEditor ? 1 : temporal,
    maxFrames: isEditor ? 1 : 1 + temporal * (config.rope_max_seq_len - 1),
    minImages,
    maxImages,
    ...(frames === "control" && { maxReferences: MAX_REFERENCES, takesMasks: true }),
    ...(can.TI2I && { maxEditImages: 1, ...(!isEditor && { inpainting: { strength: 1 } }) }),
    ...(can.F2V && { continuedFrames: CONTINUED_FRAMES }),
    ...(seesImages && { visionSide: imageEncoder!.config.image_size }),
    optionalSettings: [
      ...["flowShift", "maxSequenceLength", "riflex", ...SAMPLING_CHOICES] as const,
      ...["cfgZeroStar", "skipGuidanceLayers", "skipLayerGuidanceScale"] as const,
      ...["skipLayerGuidanceStart", "skipLayerGuidanceStop"] as const,
      ...transformer2 ? ["guidanceScale2"] as const : [],
      ...frames === "control" ? ["controlScale"] as const : [],
    ],
  };
}

export function expertRanges(
  { settings: { boundary_ratio: boundary }, transformer2 }: WanParts,
  timesteps: ArrayLike<number>,
): StepRange[] {
  const end = timesteps.length;
  if (boundary === null || !transformer2) return [[0, end]];
  const isHigh = (timestep: number) => timestep >= boundary * TRAIN_TIMESTEPS;
  const high = Array.from(timesteps).filter(isHigh).length;
  return [[0, high], [high, end]];
}

export function checkWan(
  { controlScale, cfgZeroStar, skipGuidanceLayers = [] }: PipelineRequest,
  { transformer }: WanParts,
): void {
  const { num_layers: layers } = transformer.config;
  const missing = skipGuidanceLayers.find((layer) => layer >= layers);
  if (missing !== undefined) {
    throw new SettingError(
      "skipGuidanceLayers",
      `Cannot guide away from layer ${missing}: the model has layers 0 to ${layers - 1}`,
    );
  }
  if (skipGuidanceLayers.length > 0 && cfgZeroStar) {
    throw new SettingError(
      "cfgZeroStar",
      "Cannot combine skipGuidanceLayers with cfgZeroStar: leave one of them out",
    );
  }
  const blocks = transformer.config.vace_layers.length;
  if (!controlScale || controlScale.length === 1 || controlScale.length === blocks) return;
  throw new SettingError(
    "controlScale",
    `Cannot use ${controlScale.length} control scales: the model has ${blocks} control blocks; give one for all, or ${blocks}`,
  );
}
