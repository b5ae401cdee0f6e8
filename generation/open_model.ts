/** From the name of a model and what callers say to an engine. */

import { fileURLToPath } from "node:url";
import { type LocalEngine, openEngine } from "../engine/mod.ts";
import type { EngineOptions, LoadModelOptions } from "../engine/options.ts";
import { bundledLoraFiles } from "../models/lora/bundled.ts";

/** The name of the model that comes with the program. */
export const BUNDLED_MODEL = "bundled";

const BUNDLED_FOLDER = new URL("../models/bundled/", import.meta.url);

/**
 * Completes options.
 *
 * @param path a model's folder, file or hub id, or {@link BUNDLED_MODEL}
 * @param options what differs from the defaults
 * @returns for the engine
 */
export function engineOptions(path: string, options: LoadModelOptions): EngineOptions {
  return {
    ...options,
    tuning: options.tuning ?? "cached",
    modelPath: folderOf(path),
    namedLoras: namedLoras(path),
  };
}

/**
 * What the engine is told for the name of a model.
 *
 * @param modelPath a folder, file or hub id, or {@link BUNDLED_MODEL}
 * @returns a folder, file or hub id
 */
export function folderOf(modelPath: string): string {
  return modelPath === BUNDLED_MODEL ? fileURLToPath(BUNDLED_FOLDER) : modelPath;
}

/**
 * LoRAs that come with a model.
 *
 * @param modelPath its name
 * @returns their files by name
 */
export function namedLoras(modelPath: string): Record<string, string> {
  return modelPath === BUNDLED_MODEL ? bundledLoraFiles() : {};
}

/**
 * Opens an engine.
 *
 * @param path a model's folder, file or hub id, or {@link BUNDLED_MODEL}
 * @param options what differs from the defaults
 * @param isLazy whether the model is loaded by its first request
 * @param shared which of several cards, and what it shares with engines on others
 * @returns the engine, with the model loaded or known
 * @throws {Error} when the model is missing or damaged, or no GPU can be used
 */
export function openModel(
  path: string,
  options: LoadModelOptions,
  isLazy = false,
  shared: Pick<EngineOptions, "card" | "groupCards" | "sharedLoras"> = {},
): Promise<LocalEngine> {
  return openEngine({ ...engineOptions(path, options), isLazy, ...shared });
}
