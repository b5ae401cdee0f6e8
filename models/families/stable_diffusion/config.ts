/** The components of a Stable Diffusion model, what their files may say, and defaults: those of diffusers. */
import { z } from "zod";
import { KL_VAE_CONFIG, scaleFactor } from "../../autoencoders/kl/config.ts";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import {
  optionalPart,
  type PartsOf,
  partsTable,
  type SizeCheck,
} from "../../pipeline/components.ts";
import {
  controlNetInfos,
  controlNets,
  everyControlNet,
  MAX_CONTROLS,
} from "../../pipeline/control_nets.ts";
import { controlNetsOf, controlSettings, controlUnits } from "../../pipeline/control_units.ts";
import type { FamilyInfo } from "../../pipeline/family_info.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import { DiffusionScheduler, EdmScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { CLIP_TEXT_CONFIG, type ClipTextConfig } from "../../text_encoders/clip_text.ts";
import {
  hintScale,
  isAdapter,
  isLllite,
  SD_CONTROL_CLASSES,
  SD_CONTROL_CONFIG,
  type SdControlConfig,
  unionModes,
} from "./control_config.ts";
import { CONTROL_LORA } from "./control_layout.ts";
import { CLIP_VISION_CONFIG, type ClipVisionConfig } from "../../image_encoders/clip_vision.ts";
import { IP_ADAPTER_SETTINGS } from "../../pipeline/references.ts";
import {
  countedModules,
  IP_ADAPTER_CONFIG,
  type IpAdapterConfig,
  ipAdapters,
  seesImages,
} from "./ip_adapter_config.ts";
import type { LlliteConfig } from "./lllite.ts";
import { transformerModules, UNET_CONFIG, unetBlocks, type UnetConfig } from "./unet_config.ts";
import { SettingError } from "../../setting_error.ts";

export const SD_PIPELINES: readonly string[] = [
  "StableDiffusionPipeline",
  "StableDiffusionImg2ImgPipeline",
  "StableDiffusionInpaintPipeline",
  ...["", "Img2Img", "Inpaint"].map((form) => `StableDiffusionControlNet${form}Pipeline`),
  "LatentConsistencyModelPipeline",
  "LatentConsistencyModelImg2ImgPipeline",
  "StableDiffusionInstructPix2PixPipeline",
  "StableDiffusionDepth2ImgPipeline",
];

export const SDXL_PIPELINES: readonly string[] = [
  "StableDiffusionXLPipeline",
  "StableDiffusionXLImg2ImgPipeline",
  "StableDiffusionXLInpaintPipeline",
  "StableDiffusionXLInstructPix2PixPipeline",
  ...["", "Img2Img", "Inpaint"].map((form) => `StableDiffusionXLControlNet${form}Pipeline`),
];

/** The settings that give the numbers which SDXL sees beside the prompt. */
const SIZE_SETTINGS = [
  "originalSize",
  "cropsCoordsTopLeft",
  "negativeOriginalSize",
  "negativeCropsCoordsTopLeft",
] as const;
const TARGET_SETTINGS = ["targetSize", "negativeTargetSize"] as const;
const SCORE_SETTINGS = ["aestheticScore", "negativeAestheticScore"] as const;

const ID_SETTINGS = [...SIZE_SETTINGS, ...TARGET_SETTINGS, ...SCORE_SETTINGS] as const;

/** Scores by default. Source: `StableDiffusionXLImg2ImgPipeline`. */
const [SCORE, NEGATIVE_SCORE] = [6, 2.5];

/** What single files do not say of SDXL's autoencoder. Source: its vae/config.json. */
export const SDXL_VAE = { scaling_factor: 0.13025, force_upcast: true };

const TRAIN_TIMESTEPS = 1000;

/** Images that an IP-Adapter sees at once. */
const MAX_REFERENCES = 8;

/** Texts of 75 tokens that a prompt may become. */
const MAX_TEXTS = 20;
const TEXT_TOKENS = 75;

/** Sides of images by default, in latents, where `sample_size` is absent. */
const [SD_SIDE, SDXL_SIDE] = [64, 128];

/**
 * What a UNet sees beside the sample: a mask and the latents of the image without what is masked (inpainting), or the latents
 * of the image (InstructPix2Pix), or a depth map.
 */
export type Sight = "mask" | "image" | "depth";

export function sightOf(
  { in_channels: all, out_channels: own }: Pick<UnetConfig, "in_channels" | "out_channels">,
): Sight | undefined {
  if (all === 2 * own + 1) return "mask";
  return all === 2 * own ? "image" : all === own + 1 ? "depth" : undefined;
}

const CONTROLNET = {
  ...optionalPart(SD_CONTROL_CONFIG, ...SD_CONTROL_CLASSES),
  lowRank: CONTROL_LORA,
};
const IP_ADAPTER_PART = optionalPart(IP_ADAPTER_CONFIG, "IPAdapter");

export const SD_PARTS = partsTable({
  components: {
    textEncoder: {
      classNames: ["CLIPTextModel", "CLIPTextModelWithProjection"],
      config: CLIP_TEXT_CONFIG,
    },
    textEncoder2: optionalPart(CLIP_TEXT_CONFIG, "CLIPTextModelWithProjection"),
    transformer: { classNames: ["UNet2DConditionModel"], config: UNET_CONFIG },
    vae: {
      classNames: ["AutoencoderKL"],
      config: KL_VAE_CONFIG,
      lacking: (className: string) => (SDXL_PIPELINES.includes(className) ? SDXL_VAE : {}),
    },
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "AutoencoderTiny"),
    ...everyControlNet(CONTROLNET),
    ipAdapter: IP_ADAPTER_PART,
    ipAdapter2: IP_ADAPTER_PART,
    ipAdapter3: IP_ADAPTER_PART,
    ipAdapter4: IP_ADAPTER_PART,
    imageEncoder: optionalPart(
      CLIP_VISION_CONFIG,
      ...["CLIPVisionModel", "CLIPVisionModelWithProjection"],
    ),
    refiner: optionalPart(UNET_CONFIG, "UNet2DConditionModel"),
  },
  encoders: { tokens: "textEncoder", pooled: "textEncoder2" },
  settings: z.object({
    force_zeros_for_empty_prompt: z.boolean().default(true),
    requires_aesthetics_score: z.boolean().default(false),
    /** Steps that a single file was distilled to; diffusers has no such key. */
    distilled_steps: z.int().positive().optional(),
    /** Whether the image that an editing model sees is scaled as latents are. */
    is_cosxl_edit: z.boolean().default(false),
  }),
  scheduler: { type: DiffusionScheduler },
  equal: [
    ["transformer.out_channels", "vae.latent_channels"],
    ["textEncoder.max_position_embeddings", "textEncoder2.max_position_embeddings"],
  ],
  fits: (configs, settings, className) => {
    const { transformer, textEncoder, textEncoder2, vae, imageEncoder, refiner } = configs;
    const isXl = SDXL_PIPELINES.includes(className);
    const isRefiner = settings.requires_aesthetics_score;
    if (
      (isXl && !isRefiner) !== (textEncoder2 !== undefined) ||
      isXl !== (transformer.addition_embed_type !== null)
    ) {
      throw new TypeError(
        `Cannot use the components as ${className}: SDXL has two text encoders, its refiner (requires_aesthetics_score) ` +
          "the second alone, and both a UNet with addition_embed_type text_time; other models have neither; " +
          "fetch model_index.json again",
      );
    }
    const { in_channels: channels } = transformer;
    if (channels !== vae.latent_channels && !sightOf(transformer)) {
      throw new TypeError(
        `Cannot use a UNet with in_channels ${channels}: models of text have ${vae.latent_channels}, inpainting models ` +
          `${2 * vae.latent_channels + 1}, InstructPix2Pix ${
            2 * vae.latent_channels
          }, models of depth ${vae.latent_channels + 1}; others are not supported`,
      );
    }
    return [
      {
        "transformer's cross_attention_dim": transformer.cross_attention_dim,
        "text encoders' hidden_size": textEncoder.hidden_size + (textEncoder2?.hidden_size ?? 0),
      },
      ...isXl
        ? [{
          "transformer's projection_class_embeddings_input_dim": transformer
            .projection_class_embeddings_input_dim!,
          "text encoder's projection_dim, with time ids": (textEncoder2 ?? textEncoder)
            .projection_dim + (isRefiner ? 5 : 6) * transformer.addition_time_embed_dim!,
        }]
        : [],
      ...refiner ? refinerFit(refiner, textEncoder2) : [],
      ...controlNets(configs).flatMap((net) => controlFit(net, transformer, scaleFactor(vae))),
      ...ipAdapters(configs).flatMap((each) => ipAdapterFit(each, transformer, imageEncoder)),
    ];
  },
});

function ipAdapterFit(
  { cross_attention_dim, widths, sees, image_dim }: IpAdapterConfig,
  unet: UnetConfig,
  encoder: ClipVisionConfig | undefined,
): SizeCheck[] {
  if (!encoder) {
    throw new TypeError(
      `Cannot use an IP-Adapter without its image encoder, a CLIP tower with a ${sees} of ${image_dim}: name its folder ` +
        "with --image-encoder, or put it as image_encoder beside the adapter's file",
    );
  }
  const modules = countedModules(unet);
  return [
    {
      "IP-Adapter's cross_attention_dim": cross_attention_dim,
      "transformer's cross_attention_dim": unet.cross_attention_dim,
    },
    {
      "IP-Adapter's number of attentions": widths.length,
      "transformer's": modules.length,
    },
    ...modules.map(({ channels }, i) => ({
      [`width of the IP-Adapter's attention ${i}`]: widths[i]!,
      "transformer's": channels,
    })),
    { [`IP-Adapter's width of images`]: image_dim, [`image encoder's ${sees}`]: encoder[sees] },
  ];
}

/** A refiner sees the second text encoder alone. */
function refinerFit(refiner: UnetConfig, encoder: ClipTextConfig | undefined): SizeCheck[] {
  if (!encoder || refiner.addition_embed_type === null) {
    throw new TypeError(
      "Cannot use a refiner: only SDXL has one, a UNet with addition_embed_type text_time; omit it",
    );
  }
  return [
    {
      "refiner's cross_attention_dim": refiner.cross_attention_dim,
      "second text encoder's hidden_size": encoder.hidden_size,
    },
    {
      "refiner's projection_class_embeddings_input_dim": refiner
        .projection_class_embeddings_input_dim!,
      "second text encoder's projection_dim, with 5 time ids": encoder.projection_dim +
        5 * refiner.addition_time_embed_dim!,
    },
  ];
}

/** A ControlNet's blocks need not attend, but their results are added to those of the UNet, as an adapter's features are. */
function controlFit(control: SdControlConfig, unet: UnetConfig, scale: number): SizeCheck[] {
  const { block_out_channels: widths } = unet;
  if (isLllite(control)) {
    const known = new Map(transformerModules(unet).map(({ name, channels }) => [name, channels]));
    return Object.entries(control.modules).map(([name, { width }]) => ({
      [`ControlNet-LLLite's width of ${name}`]: width,
      "transformer's": known.get(name.replace(/\.attn[12]\.to_[qkv]$/, "")) ?? 0,
    }));
  }
  const sizes = {
    "ControlNet's pixels of each latent": hintScale(control),
    "autoencoder's": scale,
  };
  if (isAdapter(control)) {
    return [
      ...widths.map((width, i) => ({
        [`adapter's channels[${i}]`]: control.channels[i] ?? control.channels.at(-1)!,
        [`transformer's block_out_channels[${i}]`]: width,
      })),
      sizes,
    ];
  }
  const both = (name: string, sizeOf: (config: UnetConfig) => number) => ({
    [`ControlNet's ${name}`]: sizeOf(control),
    [`transformer's ${name}`]: sizeOf(unet),
  });
  return [
    both("cross_attention_dim", (config) => config.cross_attention_dim),
    both("number of levels", (config) => config.block_out_channels.length),
    ...widths.map((_, i) =>
      both(`block_out_channels[${i}]`, (config) => config.block_out_channels[i]!)
    ),
    both(
      "number of layers",
      (config) => unetBlocks(config).down.flatMap(({ depths }) => depths).length,
    ),
    both(
      "projection_class_embeddings_input_dim",
      (config) => config.projection_class_embeddings_input_dim ?? 0,
    ),
    sizes,
  ];
}

/** Pixels of the largest token that sees the picture of a ControlNet-LLLite. */
function tokenSide({ modules }: LlliteConfig): number {
  const sides = Object.values(modules).map(({ kernels }) =>
    kernels.reduce((side, kernel) => side * kernel, 1)
  );
  return Math.max(...sides);
}

export type SdParts = PartsOf<typeof SD_PARTS>;

/** All but what reads the prompts. */
export type UnetParts = Omit<SdParts, "textEncoder" | "textEncoder2">;

/** Models that were distilled to few steps: by the embedded guidance, and by the spacing that only they and v models have. */
function sampling(
  { transformer, vae, settings, schedulerFile: { config } }: UnetParts,
  isXl: boolean,
): { readonly numInferenceSteps: number; readonly guidanceScale: number } {
  if (transformer.config.time_cond_proj_dim) return { numInferenceSteps: 4, guidanceScale: 8.5 };
  if (sightOf(transformer.config) === "image") {
    return { numInferenceSteps: 100, guidanceScale: isXl ? 5 : 7.5 };
  }
  // Source: the model card of Playground v2.5.
  if (vae.config.latents_std) return { numInferenceSteps: 50, guidanceScale: 3 };
  const { timestep_spacing: spacing, prediction_type: type = "epsilon" } = config;
  return spacing === "trailing" && type === "epsilon" && !config["rescale_betas_zero_snr"]
    ? { numInferenceSteps: settings.distilled_steps ?? 4, guidanceScale: 0 }
    : { numInferenceSteps: 50, guidanceScale: isXl ? 5 : 7.5 };
}

export function sdInfo(parts: UnetParts): FamilyInfo {
  const { transformer, vae, settings, refiner } = parts;
  const nets = controlNets(parts);
  const known = controlNetInfos(nets, unionModes);
  const { imageEncoder } = parts;
  const adapters = ipAdapters(parts);
  const isRefiner = settings.requires_aesthetics_score;
  const isXl = transformer.config.addition_embed_type !== null;
  const sight = sightOf(transformer.config);
  const isInpainting = sight === "mask";
  const isEditing = sight === "image";
  const startsFromImage = isInpainting || isEditing || isRefiner;
  const scale = scaleFactor(vae.config);
  const side = scale * (transformer.config.sample_size ?? (isXl ? SDXL_SIDE : SD_SIDE));
  return {
    supportedTasks: startsFromImage ? ["TI2I"] : ["T2I", "TI2I"],
    defaultTask: startsFromImage ? "TI2I" : "T2I",
    defaults: {
      width: side,
      height: side,
      ...sampling(parts, isXl),
    },
    ...(!isEditing && {
      taskDefaults: { TI2I: { strength: isInpainting ? 1 : isXl ? 0.3 : 0.8 } },
      inpainting: { strength: isXl ? 0.9999 : 1 },
    }),
    ...(sight === "depth" && { needsControl: true }),
    // Adapters of SDXL see twice as many pixels at once.
    sizeMultiple: Math.max(
      scale,
      ...nets.map(({ config }) =>
        isAdapter(config) ? config.downscale_factor : isLllite(config) ? tokenSide(config) : scale
      ),
    ),
    controlNets: known,
    ...(nets.length > 0 && { maxControls: MAX_CONTROLS }),
    controlsInpainting: nets.length > 0,
    startsFromLatents: true,
    maxImages: 1,
    ...(adapters.length > 0 && {
      maxReferences: MAX_REFERENCES,
      ipAdapters: controlNetInfos(adapters),
      referenceSide: imageEncoder!.config.image_size,
    }),
    maxSequenceLength: MAX_TEXTS * TEXT_TOKENS,
    optionalSettings: [
      "promptSyntax",
      "maxSequenceLength",
      "clipSkip",
      isEditing ? "imageGuidanceScale" : "guidanceRescale",
      ...isXl ? SIZE_SETTINGS : [],
      ...isXl && !isRefiner ? TARGET_SETTINGS : [],
      ...isRefiner || refiner ? SCORE_SETTINGS : [],
      ...refiner ? ["refinerStart" as const] : [],
      ...SAMPLING_CHOICES,
      ...controlSettings(known, { isBalanced: true }),
      ...adapters.length > 0
        ? IP_ADAPTER_SETTINGS.filter((name) => isXl || name !== "ipAdapterMode")
        : [],
    ],
  };
}

export function checkSdRequest(request: PipelineRequest, parts: SdParts): void {
  const { clipSkip = 0, ipAdapterMode = [], controlBalance: [first, ...others] = [] } = request;
  const { textEncoder, transformer, refiner, scheduler } = parts;
  const nets = controlNets(parts);
  const shown = controlNetsOf(request, controlNetInfos(nets));
  const hasJoint = nets.some((net, i) =>
    unionModes(net) && shown.indexOf(i) !== shown.lastIndexOf(i)
  );
  if (hasJoint && others.some((each) => each !== first)) {
    throw new SettingError(
      "controlBalance",
      "Cannot use several values of controlBalance: a Union ControlNet sees several of these pictures in one pass; give one value",
    );
  }
  const units = controlUnits(request);
  if (
    shown.some((net, i) =>
      nets[net] && isLllite(nets[net].config) && units[i]?.balance === "prompt"
    )
  ) {
    throw new SettingError(
      "controlBalance",
      "Cannot use controlBalance prompt: a ControlNet-LLLite has the same weight everywhere; lower its controlScale instead",
    );
  }
  const unseen = ipAdapterMode.find((mode) => {
    const isSeeing = seesImages(transformer.config, mode);
    return !countedModules(transformer.config).some(({ name }) => isSeeing(name));
  });
  if (unseen) {
    throw new SettingError(
      "ipAdapterMode",
      `Cannot see the ${unseen} of reference images: this UNet lacks the attentions of SDXL that do; omit ipAdapterMode`,
    );
  }
  if (refiner && scheduler instanceof EdmScheduler) {
    throw new TypeError(
      "Cannot use a refiner: the model is in EDM's form, and the refiner is not; omit it",
    );
  }
  const most = textEncoder.config.num_hidden_layers - 1;
  if (clipSkip <= most) return;
  throw new SettingError(
    "clipSkip",
    `Cannot skip ${clipSkip} layers of CLIP: the text encoder has ${
      most + 1
    }; ask for ${most} at most`,
  );
}

/**
 * What SDXL sees of sizes beside the prompt, and beside the negative one: the original size, the corner of a crop, and the
 * target size, or the score of a refiner. Source: `StableDiffusionXLImg2ImgPipeline._get_add_time_ids`.
 */
export function timeIds(
  request: Pick<PipelineRequest, "width" | "height" | (typeof ID_SETTINGS)[number]>,
  isScored: boolean,
): readonly [own: readonly number[], negative: readonly number[]] {
  const size = [request.height, request.width];
  const { originalSize = size, cropsCoordsTopLeft: crop = [0, 0], targetSize = size } = request;
  const { negativeOriginalSize = originalSize, negativeCropsCoordsTopLeft = crop } = request;
  const { negativeTargetSize = targetSize, aestheticScore = SCORE } = request;
  const { negativeAestheticScore = NEGATIVE_SCORE } = request;
  const [own, negative] = isScored
    ? [[aestheticScore], [negativeAestheticScore]]
    : [targetSize, negativeTargetSize];
  return [
    [...originalSize, ...crop, ...own],
    [...negativeOriginalSize, ...negativeCropsCoordsTopLeft, ...negative],
  ];
}

/** The refiner's share of the way by default. Source: the model card of SDXL's refiner. */
export const REFINER_START = 0.8;

/**
 * Of timesteps the first that a refiner takes, or all where there is none. Source: `denoising_end` of
 * `StableDiffusionXLPipeline`.
 */
export function refinerStep(timesteps: Float64Array, start: number): number {
  const cutoff = Math.round(TRAIN_TIMESTEPS * (1 - start));
  const first = timesteps.findIndex((timestep) => timestep < cutoff);
  return first < 0 ? timesteps.length : first;
}
