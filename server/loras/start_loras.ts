/** LoRAs that a server is started with. */

import { basename, dirname, join } from "node:path";
import type { LoraUse } from "../../engine/types.ts";
import type { MergeMode } from "../../generation/lora_words.ts";
import type { JobLora } from "../contract/lora_requests.ts";
import { statSync } from "node:fs";
import { findCacheFolder } from "../../hub/cache.ts";

/** A LoRA that is in use from the start. */
export interface StartLora extends LoraUse {
  /** What clients call it; the name of its file by default. */
  nickname?: string;
}

/** Gives each LoRA a nickname of its own; `mode` is for those that do not say. */
export function nameStartLoras(
  loras: readonly StartLora[],
  mode: MergeMode,
): (JobLora & { readonly nickname: string })[] {
  const taken = new Set<string>();
  return loras.map((lora) => {
    const { path, alpha, strength = 1, target = "all" } = lora;
    const name = lora.nickname ?? basename(path).replace(/\.(?:safetensors|ckpt|pth?|bin)$/i, "");
    let nickname = name;
    for (let count = 2; taken.has(nickname); count++) nickname = `${name}-${count}`;
    taken.add(nickname);
    return {
      nickname,
      path,
      file: path,
      strength,
      target,
      mode: lora.mode ?? mode,
      ...(alpha === undefined ? {} : { alpha }),
    };
  });
}

/** The folder of the hub's cache where LoRAs of clients are kept. */
const KEPT = "denoise-loras";

/** The model's folder and the hub's cache, as far as there are any, for `ServerSettings.loraFolders`. */
export function defaultLoraFolders(modelPath: string): string[] {
  const folders: string[] = [];
  try {
    folders.push(statSync(modelPath).isDirectory() ? modelPath : dirname(modelPath));
  } catch {
    // A hub id: it is in the cache, or will be.
  }
  const cache = findCacheFolder();
  return cache === undefined ? folders : [...folders, cache, join(cache, KEPT)];
}
