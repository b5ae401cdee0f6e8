/** The components of Wan-Animate-2, what their files may say, and defaults. */
import { z } from "zod";
import type { TensorSource } from "../../../../runtime/mod.ts";
import { TINY_DECODER_CONFIG } from "../../../autoencoders/tiny/config.ts";
import { WAN_VAE_CONFIG } from "../../../autoencoders/wan/config.ts";
import { viewLayout } from "../../../checkpoints/layout_view.ts";
import { CLIP_VISION_CONFIG } from "../../../image_encoders/clip_vision.ts";
import { optionalPart, type PartsOf, partsTable } from "../../../pipeline/components.ts";
import type { FamilyInfo } from "../../../pipeline/family_info.ts";
import type { PipelineRequest } from "../../../pipeline/types.ts";
import { FlowScheduler, SAMPLING_CHOICES } from "../../../schedulers/mod.ts";
import { UMT5_CONFIG } from "../../../text_encoders/umt5.ts";
import { WAN_TRANSFORMER_CONFIG } from "../config.ts";
import { ANIMATE_WAN, hasAnimateNames } from "../layouts.ts";
import { hiddenSize } from "../../../config.ts";
import { SettingError } from "../../../setting_error.ts";

/** Frames that a clip of a long video has of the one before: diffusers' `WanAnimate2ProcessVideosInputStep`. */
export const SHARED_FRAMES = 1;

export function clipCount(frames: number, clipLength: number): number {
  return Math.max(1, Math.ceil((frames - SHARED_FRAMES) / (clipLength - SHARED_FRAMES)));
}

export function clipStart(clip: number, clipLength: number): number {
  return clip * (clipLength - SHARED_FRAMES);
}

/** Which frame of a video stands at a place: beyond its end it runs backwards, and forwards again. */
export function mirrored(place: number, frames: number): number {
  const turn = place % (2 * frames);
  return turn < frames ? turn : 2 * frames - 1 - turn;
}

const ANIMATE_TRANSFORMER = "WanAnimate2Transformer3DModel";

/** Widths of the image encoder's states and of the prompt's, which diffusers' class does not let files say. */
const IMAGE_DIM = 1280;
const TEXT_ROWS = 512;

const POSITIONS = 512;

/** Longest driving video, in frames: all of them are in host memory, 1.8 GB at 640x800. */
const MAX_FRAMES = 1200;

const DRIVING_CONFIG = z.object({
  text_len: z.int().positive().max(4096).default(TEXT_ROWS),
  /** Frame from which the character's positions are counted; -1 stands for as many as the clip has. */
  refer_offset_t: z.int().min(-1).default(1),
  refer_offset_h: z.int().min(-1).default(0),
  refer_offset_w: z.int().min(-1).default(-1),
  refer_stride: z.int().positive().default(1),
  /** Switch of a variant that favours the first frame: not supported. */
  log_scale: z.literal(0).default(0),
});

/** `config.json` of `WanAnimate2Transformer3DModel`, or of Wan 2.1 I2V, as single files under Wan's own names tell it. */
export const ANIMATE_TRANSFORMER_CONFIG = z.preprocess(
  wanFields,
  z.intersection(WAN_TRANSFORMER_CONFIG, DRIVING_CONFIG),
);

export type AnimateTransformerConfig = z.output<typeof ANIMATE_TRANSFORMER_CONFIG>;

function wanFields(config: unknown): unknown {
  const { _class_name: own, ...given } = config as Record<string, unknown>;
  if (own !== ANIMATE_TRANSFORMER) return config;
  const { dim = 5120, num_heads = 40, in_dim = 36, out_dim = 16, use_img_emb = true, ...others } =
    given;
  const seesImages = use_img_emb === true;
  return {
    image_dim: seesImages ? IMAGE_DIM : null,
    ...others,
    num_attention_heads: num_heads,
    attention_head_dim: Number(dim) / Number(num_heads),
    in_channels: in_dim,
    out_channels: out_dim,
    added_kv_proj_dim: seesImages ? dim : null,
    rope_max_seq_len: POSITIONS,
  };
}

/** The class in `modular_model_index.json` of the checkpoint that needs few steps and no guidance. */
const DISTILLED = "WanAnimate2DistilledModularPipeline";

export const ANIMATE_PARTS = partsTable({
  components: {
    textEncoder: { classNames: ["UMT5EncoderModel"], config: UMT5_CONFIG },
    imageEncoder: { classNames: ["CLIPVisionModel"], config: CLIP_VISION_CONFIG },
    transformer: {
      classNames: [ANIMATE_TRANSFORMER, "WanTransformer3DModel"],
      config: ANIMATE_TRANSFORMER_CONFIG,
      view: (tensors: TensorSource) =>
        hasAnimateNames(tensors) ? viewLayout(tensors, ANIMATE_WAN) : tensors,
    },
    vae: { classNames: ["AutoencoderKLWan"], config: WAN_VAE_CONFIG },
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "TAEHV"),
  },
  settings: z.object({ modular_class_name: z.string().optional() }),
  scheduler: { type: FlowScheduler, refused: ["use_dynamic_shifting"] },
  equal: [
    ["transformer.out_channels", "vae.z_dim"],
    ["transformer.text_dim", "textEncoder.d_model"],
    ["transformer.image_dim", "imageEncoder.hidden_size"],
  ],
  fits: ({ transformer, vae: { z_dim: channels, scale_factor_temporal: frames } }) => {
    if (transformer.image_dim === null) {
      throw new TypeError(
        "Cannot use the model: Wan-Animate-2 looks at the character through an image encoder, and this transformer has no layers for it",
      );
    }
    return [
      {
        "transformer's in_channels": transformer.in_channels,
        "autoencoder's, twice, with a mask": 2 * channels + frames,
      },
    ];
  },
});

export type AnimateParts = PartsOf<typeof ANIMATE_PARTS>;

/** What the prompt of the driving video is, where a request does not say: "reference video of a person's motion". */
export const DRIVING_PROMPT = "人物动作的参考视频";

export const CLIP_LENGTH = 37;
const MIN_CLIP_LENGTH = 5;

/** What its models can do. Source of the defaults: SGLang's `Wan_Animate_2_14B_SamplingParam`. */
export function animateInfo({ settings, transformer: { config }, vae }: AnimateParts): FamilyInfo {
  const { scale_factor_spatial: spatial } = vae.config;
  const isDistilled = settings.modular_class_name === DISTILLED;
  const isSmall = hiddenSize(config) < 1536;
  return {
    supportedTasks: ["V2V"],
    defaultTask: "V2V",
    defaults: {
      ...isSmall ? { width: 64, height: 64 } : { width: 640, height: 800 },
      numFrames: CLIP_LENGTH,
      fps: 16,
      numInferenceSteps: isDistilled ? 10 : 40,
      guidanceScale: isDistilled ? 1 : 3,
    },
    animates: true,
    sizeMultiple: spatial * Math.max(config.patch_size[1], config.patch_size[2]),
    // A result has as many frames as the driving video.
    frameMultiple: 1,
    maxFrames: MAX_FRAMES,
    minImages: 1,
    maxImages: 1,
    optionalSettings: [
      ...["clipLen", "promptRef", "flowShift", "maxSequenceLength"] as const,
      ...SAMPLING_CHOICES,
    ],
  };
}

export function checkAnimate(
  { clipLen = CLIP_LENGTH }: PipelineRequest,
  { vae, transformer: { config } }: AnimateParts,
): void {
  const { scale_factor_temporal: temporal } = vae.config;
  const most = 1 + temporal * (config.rope_max_seq_len - 2);
  const isWhole = Number.isSafeInteger(clipLen) && (clipLen - 1) % temporal === 0;
  if (isWhole && clipLen >= MIN_CLIP_LENGTH && clipLen <= most) return;
  throw new SettingError(
    "clipLen",
    `Cannot make clips of ${clipLen} frames: clipLen must be a multiple of ${temporal} and 1 more, from ${MIN_CLIP_LENGTH} to ${most}`,
  );
}

export function clipsOf({ numFrames, clipLen = CLIP_LENGTH }: PipelineRequest): number {
  return clipCount(numFrames, clipLen);
}
