/** The LoRAs of a request, as far as routing is concerned. */

import type { JobLora } from "../server/contract/lora_requests.ts";

/**
 * What a worker must have set for a request.
 *
 * @returns a text for each LoRA, in order: two requests with the same texts need the same
 */
export function lorasOf(request: unknown): string[] {
  const { loras = [] } = (request ?? {}) as { loras?: readonly JobLora[] };
  return loras.map(({ path, strength, target, mode }) => [path, strength, target, mode].join("|"));
}
