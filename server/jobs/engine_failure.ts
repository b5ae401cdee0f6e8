/**
 * What a failed generation is for the client.
 *
 * @module
 */

import { httpNames, SETTING_FIELDS, SETTING_NAMES } from "../../generation/mod.ts";
import { ServiceError } from "../service_error.ts";
import { type JobLora, namesOf } from "../loras/job_lora.ts";
import { loraRefusal } from "../loras/lora_refusal.ts";

/** Settings as the library calls them, where that is no word of its own. */
const LIBRARY_NAMES = new RegExp(
  `\\b(?:${SETTING_NAMES.filter((name) => /[A-Z]/.test(name)).join("|")})\\b`,
  "g",
);

/** A sentence of the library with the names that fields have over HTTP. */
function withFieldNames(text: string): string {
  return text.replace(LIBRARY_NAMES, (name) => {
    const [http] = httpNames(name, SETTING_FIELDS[name as keyof typeof SETTING_FIELDS]);
    return http!;
  });
}

/**
 * Turns what the engine threw into what the job ends with.
 *
 * @param error what the engine threw
 * @param loras LoRAs of the generation
 * @throws {ServiceError} with the engine's words when it refuses the request, and when the GPU was lost; anything else
 * as it is
 */
export function explainEngineFailure(error: unknown, loras: readonly JobLora[] = []): never {
  // A request that the model refuses says so in a sentence; other type errors are defects of ours.
  const isRefusal = error instanceof RangeError || error instanceof TypeError;
  if (isRefusal && error.message.startsWith("Cannot ")) {
    throw new ServiceError("refused", withFieldNames(error.message));
  }
  const refusal = loraRefusal(error, "loras", namesOf(loras));
  if (refusal !== error) throw refusal;
  if (error instanceof Error && error.name === "DeviceLostError") {
    const message =
      "Cannot finish the job: the GPU was lost, and is started again; send the request again";
    throw new ServiceError("device_lost", message, { retryAfter: 5, cause: error });
  }
  throw error;
}
