/** LoRAs that a server is started with. */

import { basename } from "node:path";
import type { LoraUse } from "../../engine/types.ts";
import type { MergeMode } from "../../generation/lora_words.ts";
import type { JobLora } from "../contract/lora_requests.ts";

/** A LoRA that is in use from the start. */
export interface StartLora extends LoraUse {
  /** What clients call it; the name of its file when left out. */
  nickname?: string;
}

/**
 * Gives each LoRA a nickname of its own.
 *
 * @param loras in the order in which they are applied
 * @param mode how they are brought in that do not say
 * @returns the same LoRAs; the engine finds their files
 */
export function nameStartLoras(
  loras: readonly StartLora[],
  mode: MergeMode,
): (JobLora & { readonly nickname: string })[] {
  const taken = new Set<string>();
  return loras.map((lora) => {
    const { path, alpha, strength = 1, target = "all" } = lora;
    const name = lora.nickname ?? basename(path).replace(/\.safetensors$/i, "");
    let nickname = name;
    for (let count = 2; taken.has(nickname); count++) nickname = `${name}-${count}`;
    taken.add(nickname);
    return {
      ...{ nickname, path, file: path, strength, target, mode: lora.mode ?? mode },
      ...(alpha === undefined ? {} : { alpha }),
    };
  });
}
