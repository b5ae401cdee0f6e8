/** The components of a Z-Image model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { KL_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { headFits, refuse } from "../../config.ts";
import { optionalPart, type PartsOf, partsTable, sameSizes } from "../../pipeline/components.ts";
import { controlNetInfos } from "../../pipeline/control_nets.ts";
import { controlSettings } from "../../pipeline/control_units.ts";
import { isInpainting } from "../../pipeline/inpainting.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { QWEN3_CONFIG } from "../../text_encoders/qwen3.ts";
import { requireQwenChat } from "../../tokenizers/mod.ts";

/** Side of a patch, in latents, of which checkpoints may have several sizes. */
export const PATCH_SIDE = 2;
/** Extent of a patch in time; an image has one frame. */
const PATCH_FRAMES = 1;
/** Axes of a token's position: place in the text, row, column. */
const AXES = 3;
/** Far more than any model has. */
const MAX_LAYERS = 1024;
const MAX_TIMESTEP_CHANNELS = 256;

export const Z_IMAGE_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("ZImageTransformer2DModel").default("ZImageTransformer2DModel"),
  all_patch_size: z.array(z.int().positive()).default([PATCH_SIDE]),
  all_f_patch_size: z.array(z.int().positive()).default([PATCH_FRAMES]),
  in_channels: z.int().positive().default(16),
  dim: z.int().positive().default(3840),
  n_layers: z.int().positive().max(MAX_LAYERS).default(30),
  n_refiner_layers: z.int().nonnegative().max(MAX_LAYERS).default(2),
  n_heads: z.int().positive().default(30),
  n_kv_heads: z.int().positive().nullish(),
  norm_eps: z.number().positive().max(1).default(1e-5),
  qk_norm: z.literal(true, "models without norms of queries and keys are not supported").default(
    true,
  ),
  cap_feat_dim: z.int().positive().default(2560),
  siglip_feat_dim: z.null("Z-Image-Omni (siglip_feat_dim) is not supported").default(null),
  rope_theta: z.number().positive().default(256),
  t_scale: z.number().positive().default(1000),
  axes_dims: z.array(z.int().positive().multipleOf(2)).length(AXES).default([32, 48, 48]),
  axes_lens: z.array(z.int().positive()).length(AXES).default([1024, 512, 512]),
}).superRefine((config, context) => {
  const { dim, n_heads, n_kv_heads, axes_dims, all_patch_size, all_f_patch_size } = config;
  const headDim = dim / n_heads;
  if (!headFits(headDim)) {
    refuse(context, "n_heads", `dim = ${dim} must give heads of a multiple of 4, up to 128`);
  }
  if ((n_kv_heads ?? n_heads) !== n_heads) {
    refuse(context, "n_kv_heads", `it must be n_heads = ${n_heads}`);
  }
  if (axes_dims.reduce((sum, size) => sum + size, 0) !== headDim) {
    refuse(context, "axes_dims", `its sum must be dim / n_heads = ${headDim}`);
  }
  const at = all_patch_size.indexOf(PATCH_SIDE);
  if (at === -1 || all_f_patch_size[at] !== PATCH_FRAMES) {
    refuse(
      context,
      "all_patch_size",
      `it must have ${PATCH_SIDE}, with ${PATCH_FRAMES} in all_f_patch_size`,
    );
  }
});

export type ZImageTransformerConfig = z.output<typeof Z_IMAGE_TRANSFORMER_CONFIG>;

export const Z_IMAGE_CONTROLNET_CONFIG = z.object({
  _class_name: z.literal("ZImageControlNetModel").default("ZImageControlNetModel"),
  control_layers_places: z.array(z.int().nonnegative()).min(1).max(MAX_LAYERS),
  control_refiner_layers_places: z.array(z.int().nonnegative()).max(MAX_LAYERS).nullish(),
  /** Channels of the picture's latents, and of what else it may see beside: a mask and the image that it keeps in part. */
  control_in_dim: z.int().positive(),
  add_control_noise_refiner: z.enum(["control_layers", "control_noise_refiner"]).nullish(),
  dim: z.int().positive().default(3840),
  n_refiner_layers: z.int().positive().max(MAX_LAYERS).default(2),
  n_heads: z.int().positive().default(30),
  norm_eps: z.number().positive().max(1).default(1e-5),
  qk_norm: z.literal(true, "blocks without norms of queries and keys are not supported")
    .default(true),
}).superRefine((config, context) => {
  const places = config.control_layers_places;
  if (places.every((place, i) => i === 0 ? place === 0 : place > places[i - 1]!)) return;
  refuse(context, "control_layers_places", "they must rise from 0");
});

export type ZImageControlNetConfig = z.output<typeof Z_IMAGE_CONTROLNET_CONFIG>;

export const PATCH_KEY = `${PATCH_SIDE}-${PATCH_FRAMES}`;

/** Latents that a token holds. */
export function patchFeatures({ in_channels }: ZImageTransformerConfig): number {
  return PATCH_FRAMES * PATCH_SIDE * PATCH_SIDE * in_channels;
}

export function hiddenFeatures({ dim }: Pick<ZImageTransformerConfig, "dim">): number {
  return Math.trunc(dim / 3 * 8);
}

export function timestepChannels({ dim }: ZImageTransformerConfig): number {
  return Math.min(dim, MAX_TIMESTEP_CHANNELS);
}

/** Largest shift of models that were distilled to few steps without guidance; Turbo has it, the base model more. */
const DISTILLED_SHIFT = 3;

export const Z_IMAGE_PARTS = partsTable({
  components: {
    textEncoder: { classNames: ["Qwen3Model", "Qwen3ForCausalLM"], config: QWEN3_CONFIG },
    transformer: { classNames: ["ZImageTransformer2DModel"], config: Z_IMAGE_TRANSFORMER_CONFIG },
    vae: { classNames: ["AutoencoderKL"], config: KL_VAE_CONFIG },
    controlnet: optionalPart(Z_IMAGE_CONTROLNET_CONFIG, "ZImageControlNetModel"),
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "AutoencoderTiny"),
  },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler },
  equal: [
    ["transformer.in_channels", "vae.latent_channels"],
    ["transformer.cap_feat_dim", "textEncoder.hidden_size"],
    ...sameSizes("controlnet", "transformer", ["dim", "n_heads", "n_refiner_layers"]),
  ],
  fits: ({ transformer, controlnet }) => {
    if (!controlnet) return [];
    const { control_in_dim: channels, control_layers_places: places } = controlnet;
    const last = places.at(-1)!;
    if (last < transformer.n_layers && channels >= transformer.in_channels) return [];
    throw new TypeError(
      `Cannot use the ControlNet: it steers layer ${last} by ${channels} channels, and the transformer has ` +
        `${transformer.n_layers} layers and ${transformer.in_channels} channels; choose one of its own`,
    );
  },
  checkTokenizer: requireQwenChat,
});

type ZImageParts = PartsOf<typeof Z_IMAGE_PARTS>;

/** Whether the ControlNet of a request sees its image and mask beside the control picture: those of 2.0 and later do. */
export function controlSeesMask(
  request: PipelineRequest,
  { controlnet, transformer }: ZImageParts,
): boolean {
  if (!controlnet || !request.control?.length || !isInpainting(request)) return false;
  return controlnet.config.control_in_dim > 2 * transformer.config.in_channels;
}

export function zImageInfo(
  { vae, scheduler, schedulerFile, controlnet }: ZImageParts,
): FamilyInfo {
  const scale = scaleFactor(vae.config);
  const isDistilled = Number(schedulerFile.config["shift"] ?? 1) <= DISTILLED_SHIFT;
  const sampling = isDistilled
    ? { numInferenceSteps: 8, guidanceScale: 0 }
    : { numInferenceSteps: 50, guidanceScale: 5 };
  const known = controlNetInfos([controlnet]);
  return {
    supportedTasks: ["T2I", "TI2I"],
    defaultTask: "T2I",
    defaults: { ...usualSize(scale), ...sampling },
    taskDefaults: { TI2I: { strength: 0.6 } },
    inpainting: { strength: 1 },
    sizeMultiple: scale * PATCH_SIDE,
    startsFromLatents: true,
    controlNets: known,
    maxImages: 1,
    optionalSettings: [
      "guidanceLimit",
      "guidanceEnd",
      "maxSequenceLength",
      ...SAMPLING_CHOICES,
      ...scheduler.usesDynamicShifting ? [] : ["flowShift" as const],
      ...controlSettings(known),
    ],
  };
}
