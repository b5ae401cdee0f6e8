/** A LoRA as a job keeps it: whatever is set later, the job's results do not change. */

import type { LoraUse } from "../../engine/types.ts";
import type { JobLora } from "../contract/lora_requests.ts";

/**
 * What the engine is told.
 *
 * @param loras of a job; records of older versions have none
 */
export function toLoraUses(loras: readonly JobLora[] = []): LoraUse[] {
  return loras.map(({ file, alpha, strength, target, mode }) => ({
    ...{ path: file, strength, target, mode },
    ...(alpha === undefined ? {} : { alpha }),
  }));
}

/** What clients call the files of LoRAs. */
export function namesOf(loras: readonly JobLora[]): ReadonlyMap<string, string> {
  return new Map(loras.map(({ file, path }) => [file, path]));
}
