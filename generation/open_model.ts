/** From the name of a model and what callers say to an engine. */

import { fileURLToPath } from "../platform/mod.ts";
import { type LocalEngine, openEngine } from "../engine/mod.ts";
import type { EngineOptions, LoadModelOptions } from "../engine/options.ts";
import { checkFlag } from "./field_values.ts";
import { BUNDLED_FOLDER, BUNDLED_MODEL, bundledLoraFiles } from "../models/lora/bundled.ts";

/** @throws {RangeError} for what should be true or false, and is neither */
export function engineOptions(path: string, options: LoadModelOptions): EngineOptions {
  const { pinCpuMemory, forceSoftware, parallel, parts } = options;
  const flags = {
    pinCpuMemory,
    forceSoftware,
    "parallel.guidance": parallel?.guidance,
    "parts.rescaleBetasZeroSnr": parts?.rescaleBetasZeroSnr,
  };
  for (const [name, value] of Object.entries(flags)) {
    if (value !== undefined) checkFlag(value, name);
  }
  return {
    ...options,
    tuning: options.tuning ?? "cached",
    modelPath: folderOf(path),
    namedLoras: namedLoras(path),
  };
}

/** The folder, file or hub id that a model's name stands for. */
export function folderOf(modelPath: string): string {
  return modelPath === BUNDLED_MODEL ? fileURLToPath(BUNDLED_FOLDER) : modelPath;
}

/** LoRAs that come with a model: files by name. */
export function namedLoras(modelPath: string): Record<string, string> {
  return modelPath === BUNDLED_MODEL ? bundledLoraFiles() : {};
}

/** Opens an engine; a lazy one loads its model with its first request. @throws {Error} for a bad model, or without a GPU */
export function openModel(
  path: string,
  options: LoadModelOptions,
  isLazy = false,
  shared: Pick<EngineOptions, "card" | "groupCards" | "sharedLoras"> = {},
): Promise<LocalEngine> {
  return openEngine({ ...engineOptions(path, options), isLazy, ...shared });
}
