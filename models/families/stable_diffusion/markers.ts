/**
 * What single files say of their noise beside the weights: tensors without elements, or with a few numbers.
 * Source of the names: ComfyUI's `SDXL.model_type`; `alphas_cumprod` is of the first latent diffusion code.
 */
import type { JsonObject } from "../../../hub/json_file.ts";
import { decodeElements, elementTypeOf, type TensorSource } from "../../../runtime/mod.ts";

/** Source: scheduler/scheduler_config.json of SD 1.5, SD 2.1 and SDXL. */
export const BETAS = {
  beta_start: 0.00085,
  beta_end: 0.012,
  beta_schedule: "scaled_linear",
  num_train_timesteps: 1000,
  steps_offset: 1,
};

interface Markers {
  /** Keys of `scheduler_config.json`. */
  readonly scheduler: JsonObject;
  /** Keys of the autoencoder's `config.json`. */
  readonly vae?: JsonObject;
  /** Keys of `model_index.json`. */
  readonly settings?: JsonObject;
}

/** Source: scheduler_config.json and vae/config.json of Playground v2.5. */
const PLAYGROUND = {
  scheduler: { _class_name: "EDMDPMSolverMultistepScheduler", sigma_data: 0.5, sigma_max: 80 },
  scalingFactor: 0.5,
};

/** ᾱ of the last timestep below which nothing but noise is left. */
const NO_SIGNAL = 1e-5;
/** How far ᾱ of a file may be from the usual table: as far as 16 bits round. */
const TABLE_TOLERANCE = 0.004;
const ZERO_TERMINAL = { rescale_betas_zero_snr: true, timestep_spacing: "trailing" };
/** More numbers than any marker has. */
const MAX_BYTES = 2 ** 16;

export function markersOf(file: TensorSource): Markers {
  const has = (name: string) => file.find(name) !== undefined;
  const [mean, std] = [numbersOf(file, "edm_mean"), numbersOf(file, "edm_std")];
  if (mean && std) {
    const { scheduler, scalingFactor } = PLAYGROUND;
    const vae = { scaling_factor: scalingFactor, latents_mean: mean, latents_std: std };
    return { scheduler, vae };
  }
  const [highest] = numbersOf(file, "edm_vpred.sigma_max") ?? [];
  if (highest !== undefined) {
    const [lowest = 0.002] = numbersOf(file, "edm_vpred.sigma_min") ?? [];
    const scheduler = {
      _class_name: "EDMEulerScheduler",
      sigma_max: highest,
      sigma_min: lowest,
      sigma_data: 1,
      sigma_schedule: "exponential",
      prediction_type: "v_prediction",
    };
    return { scheduler, settings: { is_cosxl_edit: true } };
  }
  return {
    scheduler: {
      ...(has("v_pred") && { prediction_type: "v_prediction" }),
      ...(has("v_pred") && has("ztsnr") ? ZERO_TERMINAL : tableOf(file)),
    },
  };
}

/** The noise schedule of `alphas_cumprod`; nothing where it is the usual one. */
function tableOf(file: TensorSource): JsonObject {
  const signals = numbersOf(file, "alphas_cumprod");
  if (!signals || signals.length < 2) return {};
  if (signals.at(-1)! < NO_SIGNAL) return ZERO_TERMINAL;
  const { length } = signals;
  const [first, last] = [Math.sqrt(BETAS.beta_start), Math.sqrt(BETAS.beta_end)];
  let usual = 1;
  const isUsual = length === BETAS.num_train_timesteps && signals.every((signal, i) => {
    usual *= 1 - (first + (last - first) * i / (length - 1)) ** 2;
    return Math.abs(signal - usual) < TABLE_TOLERANCE;
  });
  const betas = signals.map((signal, i) => Math.max(1 - signal / (signals[i - 1] ?? 1), 1e-6));
  return isUsual ? {} : { trained_betas: betas, num_train_timesteps: length };
}

function numbersOf(file: TensorSource, name: string): number[] | undefined {
  const { byteLength, format } = file.find(name) ?? { byteLength: 0, format: "" };
  const type = elementTypeOf(format);
  if (byteLength === 0 || byteLength > MAX_BYTES || !type) return undefined;
  const bytes = new Uint8Array(byteLength);
  file.read(name, 0, bytes);
  return Array.from(decodeElements(bytes, type));
}
