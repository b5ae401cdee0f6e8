/** The components of a FLUX.1 model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { KL_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { checkRotaryAxes } from "../../config.ts";
import { optionalPart, type PartsOf, partsTable } from "../../pipeline/components.ts";
import {
  controlNetInfos,
  controlNets,
  controlNetSizes,
  everyControlNet,
  MAX_CONTROLS,
} from "../../pipeline/control_nets.ts";
import { controlSettings, PICTURE_SETTINGS } from "../../pipeline/control_units.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import type { ImageLimits } from "../../pipeline/types.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { CLIP_TEXT_CONFIG } from "../../text_encoders/clip_text.ts";
import { T5_CONFIG } from "../../text_encoders/t5.ts";

/** Axes of a token's position: image, row, column. */
const AXES = 3;
/** Far more than any model has. */
export const MAX_LAYERS = 1024;

export const FLUX_SIZES = {
  patch_size: z.literal(1).default(1),
  in_channels: z.int().positive().multipleOf(4).default(64),
  num_layers: z.int().positive().max(MAX_LAYERS).default(19),
  attention_head_dim: z.int().positive().multipleOf(4).max(128).default(128),
  num_attention_heads: z.int().positive().default(24),
  joint_attention_dim: z.int().positive().default(4096),
  axes_dims_rope: z.array(z.int().positive().multipleOf(2)).length(AXES).default([16, 56, 56]),
};

const FLUX1_SIZES = {
  ...FLUX_SIZES,
  pooled_projection_dim: z.int().positive().default(768),
  guidance_embeds: z.boolean().default(false),
};

export const FLUX1_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("FluxTransformer2DModel").default("FluxTransformer2DModel"),
  ...FLUX1_SIZES,
  out_channels: z.int().positive().nullish(),
  num_single_layers: z.int().positive().max(MAX_LAYERS).default(38),
}).superRefine(checkRotaryAxes);

export type Flux1TransformerConfig = z.output<typeof FLUX1_TRANSFORMER_CONFIG>;

export const FLUX1_CONTROLNET_CONFIG = z.object({
  _class_name: z.literal("FluxControlNetModel").default("FluxControlNetModel"),
  ...FLUX1_SIZES,
  num_single_layers: z.int().nonnegative().max(MAX_LAYERS).default(38),
  num_mode: z.int().positive().max(MAX_LAYERS).nullish(),
  conditioning_embedding_channels: z.null(
    "pictures that no autoencoder encodes, as XLabs' ControlNets read them, are not supported",
  ).nullish(),
});

export type Flux1ControlNetConfig = z.output<typeof FLUX1_CONTROLNET_CONFIG>;

/** Kinds of pictures in the order in which the Union models of InstantX count them. */
const MODES = ["canny", "tile", "depth", "blur", "pose", "gray", "lq"] as const;

export function controlModes(
  { num_mode: count }: Pick<Flux1ControlNetConfig, "num_mode">,
): readonly string[] | undefined {
  return count ? MODES.slice(0, count) : undefined;
}

/** Features of the tokens that it denoises. */
function latentFeatures({ out_channels, in_channels }: Flux1TransformerConfig): number {
  return out_channels ?? in_channels;
}

export function isFill(config: Flux1TransformerConfig): boolean {
  return config.in_channels > latentFeatures(config) && !drawsAfterPicture(config);
}

export function drawsAfterPicture(config: Flux1TransformerConfig): boolean {
  return config.in_channels === 2 * latentFeatures(config);
}

export const KONTEXT: readonly string[] = ["FluxKontextPipeline", "FluxKontextInpaintPipeline"];

export const FLUX1_PIPELINES: readonly string[] = [
  ...["FluxPipeline", "FluxImg2ImgPipeline", "FluxInpaintPipeline", "FluxFillPipeline"],
  ...["FluxControlNetPipeline", "FluxControlNetImg2ImgPipeline", "FluxControlNetInpaintPipeline"],
  ...["FluxControlPipeline", ...KONTEXT],
];

/** Tokens of prompts with which the distilled and the other models were trained. */
const [SCHNELL_TOKENS, DEV_TOKENS] = [256, 512];
/** What is allowed of Kontext's input images, which are scaled; the reference has no bounds. */
const IMAGE_LIMITS = { minSide: 16, maxAspect: 8 } as const;
/** Shorter and longer sides of the images that Kontext was trained with, in tokens: `PREFERRED_KONTEXT_RESOLUTIONS`. */
const KONTEXT_SIDES: readonly (readonly [number, number])[] = [
  ...[[42, 98], [43, 94], [45, 91], [47, 87], [50, 83], [52, 78], [55, 74], [59, 69]] as const,
  [64, 64],
];

const CONTROLNET = optionalPart(FLUX1_CONTROLNET_CONFIG, "FluxControlNetModel");

export const FLUX1_PARTS = partsTable({
  components: {
    textEncoder: { classNames: ["CLIPTextModel"], config: CLIP_TEXT_CONFIG },
    textEncoder2: { classNames: ["T5EncoderModel"], config: T5_CONFIG },
    transformer: { classNames: ["FluxTransformer2DModel"], config: FLUX1_TRANSFORMER_CONFIG },
    vae: { classNames: ["AutoencoderKL"], config: KL_VAE_CONFIG },
    ...everyControlNet(CONTROLNET),
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "AutoencoderTiny"),
  },
  encoders: { tokens: "textEncoder2", pooled: "textEncoder" },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler },
  equal: [
    ["transformer.joint_attention_dim", "textEncoder2.d_model"],
    ["transformer.pooled_projection_dim", "textEncoder.hidden_size"],
    ...controlNetSizes([
      "in_channels",
      "num_attention_heads",
      "attention_head_dim",
      "joint_attention_dim",
      "pooled_projection_dim",
    ]),
  ],
  fits: (configs, _, className) => {
    const { transformer, vae } = configs;
    const features = latentFeatures(transformer);
    const fills = isFill(transformer);
    const drawsOtherwise = KONTEXT.includes(className) || fills || drawsAfterPicture(transformer);
    if (drawsOtherwise && controlNets(configs).length > 0) {
      throw new TypeError(
        "Cannot use a ControlNet with FLUX.1 Kontext, Fill, Canny or Depth: it goes with dev, Krea and schnell; omit it",
      );
    }
    const beside = 2 * features + (scaleFactor(vae) * PACKED_SIDE) ** 2;
    return [
      {
        "transformer's out_channels": features,
        "packed latents' width": vae.latent_channels * PACKED_SIDE ** 2,
      },
      ...fills
        ? [
          {
            "transformer's in_channels": transformer.in_channels,
            "packed latents' width, twice, with the pixels of a token": beside,
          },
        ] as const
        : [],
    ];
  },
});

export type Flux1Parts = PartsOf<typeof FLUX1_PARTS>;

export function flux1Info(parts: Flux1Parts): FamilyInfo {
  const { className, transformer, vae, scheduler } = parts;
  const nets = controlNets(parts);
  const known = controlNetInfos(nets, ({ config }) => controlModes(config));
  const scale = scaleFactor(vae.config);
  const sizeMultiple = scale * PACKED_SIDE;
  const isKontext = KONTEXT.includes(className);
  const isGuided = transformer.config.guidance_embeds;
  const fills = isFill(transformer.config);
  const isDrawnAfter = drawsAfterPicture(transformer.config);
  const needsImage = fills || isDrawnAfter;
  const sampling = needsImage
    ? { numInferenceSteps: 50, guidanceScale: 30 }
    : isGuided
    ? { numInferenceSteps: 28, guidanceScale: isKontext ? 2.5 : 3.5 }
    : { numInferenceSteps: 4, guidanceScale: 0 };
  return {
    supportedTasks: needsImage ? ["TI2I"] : ["T2I", "TI2I"],
    defaultTask: needsImage ? "TI2I" : "T2I",
    defaults: { ...usualSize(scale), ...sampling },
    ...(!isKontext && !needsImage &&
      { taskDefaults: { TI2I: { strength: 0.6 } }, startsFromLatents: true }),
    ...(!isDrawnAfter && { inpainting: { strength: isKontext || fills ? 1 : 0.6 } }),
    sizeMultiple,
    maxImages: 1,
    maxSequenceLength: isGuided ? DEV_TOKENS : SCHNELL_TOKENS,
    optionalSettings: [
      "trueCfgScale",
      "maxSequenceLength",
      ...SAMPLING_CHOICES,
      ...scheduler.usesDynamicShifting ? [] : ["flowShift" as const],
      ...isDrawnAfter ? PICTURE_SETTINGS : controlSettings(known),
    ],
    controlNets: known,
    ...(nets.length > 0 && { maxControls: MAX_CONTROLS }),
    ...(isKontext && { imageLimits: kontextLimits(sizeMultiple) }),
  };
}

/** Input images of Kontext: about a million pixels, in one of 17 shapes. */
function kontextLimits(multiple: number): ImageLimits {
  const pixels = (a: number, b: number) => [a * multiple, b * multiple] as const;
  const upright = KONTEXT_SIDES.map(([short, long]) => pixels(short, long));
  const sizes = [...upright, ...upright.map(([short, long]) => [long, short] as const)];
  const maxPixels = Math.max(...sizes.map(([width, height]) => width * height));
  return { multiple, maxPixels, ...IMAGE_LIMITS, sizes };
}
