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

/** Flags that say which parts a model has and how it is on a device, which a server has decided. */
export function flagsOfModels(flags: ModelParts & DeviceFlags): string[] {
  const device: readonly (keyof DeviceFlags)[] = [
    ...["maxVram", "textEncoderCpuOffload", "vaeCpuOffload", "pinCpuMemory", "software"] as const,
    ...["powerPreference", "gpuBackend", "enableCfgParallel", "ulyssesDegree"] as const,
    ...["ringDegree", "splitLayers"] as const,
  ];
  const given = device.filter((name) => flags[name] !== undefined && flags[name] !== false);
  return [...Object.keys(partsOf(flags)), ...given];
}
