/** Flags that name parts of a model. */

import type { ModelParts } from "../mod.ts";
import type { DeviceFlags } from "./device_flags.ts";

const PARTS: Readonly<Record<keyof ModelParts, true>> = {
  transformer: true,
  transformer2: true,
  textEncoder: true,
  textEncoder2: true,
  imageEncoder: true,
  mmproj: true,
  vae: true,
  tinyDecoder: true,
  controlnet: true,
  upscaler: true,
  frameInterpolator: true,
  tokenizer: true,
  tokenizer2: true,
};

/**
 * The parts that flags name.
 *
 * @returns the parts, without those that no flag names
 */
export function partsOf(flags: ModelParts): ModelParts {
  const names = Object.keys(PARTS) as (keyof ModelParts)[];
  return Object.fromEntries(
    names.flatMap((name) => (flags[name] === undefined ? [] : [[name, flags[name]]])),
  );
}

const DEVICE: Readonly<Record<Exclude<keyof DeviceFlags, "tune">, true>> = {
  maxVram: true,
  textEncoderCpuOffload: true,
  vaeCpuOffload: true,
  pinCpuMemory: true,
  powerPreference: true,
  gpuBackend: true,
  software: true,
  enableCfgParallel: true,
  ulyssesDegree: true,
  ringDegree: true,
  splitLayers: true,
};

/** Flags of the model and its device that ask for something, which a server has decided for itself. */
export function flagsOfModels(flags: ModelParts & DeviceFlags): string[] {
  // One GPU is the default of the degrees.
  const isAsked = (value: unknown) => value !== undefined && value !== false && value !== 1;
  const device = Object.keys(DEVICE) as (keyof typeof DEVICE)[];
  return [...Object.keys(partsOf(flags)), ...device.filter((name) => isAsked(flags[name]))];
}
