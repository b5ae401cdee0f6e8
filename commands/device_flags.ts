/** Flags that say which GPU is used, and how its memory is. */

import type { DeviceOptions, OffloadableComponent } from "../mod.ts";

/** The flags, read and checked. */
export interface DeviceFlags extends Pick<DeviceOptions, "powerPreference" | "gpuBackend"> {
  /** Device memory that may be taken, in bytes. */
  maxVram?: number;
  /** Free the text encoder's weights after its work. */
  textEncoderCpuOffload?: boolean;
  /** Free the autoencoder's weights after its work. */
  vaeCpuOffload?: boolean;
  /** Keep host copies of weights that leave the device. */
  pinCpuMemory?: boolean;
  /** Use the software adapter. */
  software?: boolean;
  /** Whether two GPUs share the passes of guidance. */
  enableCfgParallel?: boolean;
  /** How many GPUs share tokens, and heads in attention. */
  ulyssesDegree?: number;
  /** How many GPUs share tokens, and queries in attention. */
  ringDegree?: number;
  /** How many GPUs share the layers. */
  splitLayers?: number;
  /** Whether a GPU that was not tuned yet is tuned first; true when left out. */
  tune?: boolean;
}

/** The flags as the library takes them. */
export function deviceOptions(flags: DeviceFlags): DeviceOptions {
  const offload: OffloadableComponent[] = [];
  if (flags.textEncoderCpuOffload) offload.push("textEncoder");
  if (flags.vaeCpuOffload) offload.push("vae");
  return {
    tuning: flags.tune === false ? "cached" : "auto",
    offload,
    pinCpuMemory: flags.pinCpuMemory === true,
    ...(flags.maxVram === undefined ? {} : { maxVramBytes: flags.maxVram }),
    ...(flags.powerPreference === undefined ? {} : { powerPreference: flags.powerPreference }),
    ...(flags.software === undefined ? {} : { forceSoftware: flags.software }),
    ...parallelOptions(flags),
    ...(flags.gpuBackend === undefined ? {} : { gpuBackend: flags.gpuBackend }),
  };
}

/** What several GPUs share; nothing for one. */
function parallelOptions(flags: DeviceFlags): Pick<DeviceOptions, "parallel"> {
  const { enableCfgParallel, ulyssesDegree = 1, ringDegree = 1, splitLayers = 1 } = flags;
  const parallel = {
    ...(enableCfgParallel && { guidance: true }),
    ...(ulyssesDegree > 1 && { ulysses: ulyssesDegree }),
    ...(ringDegree > 1 && { ring: ringDegree }),
    ...(splitLayers > 1 && { layers: splitLayers }),
  };
  return Object.keys(parallel).length > 0 ? { parallel } : {};
}
