/** What a failed generation is for the client. */

import { httpNames, SETTING_FIELDS, spellSettings } from "../../generation/mod.ts";
import { ServiceError } from "../service_error.ts";
import { namesOf } from "./job_lora.ts";
import type { JobLora } from "../contract/lora_requests.ts";
import { loraRefusal } from "./lora_refusal.ts";

/**
 * Turns what the engine threw into what the job ends with.
 *
 * @throws {ServiceError} with the engine's words when it refuses the request, and when the GPU was lost; anything else
 * as it is
 */
export function explainEngineFailure(error: unknown, loras: readonly JobLora[] = []): never {
  // A request that the model refuses says so in a sentence; other type errors are defects of ours.
  const isRefusal = error instanceof RangeError || error instanceof TypeError;
  if (isRefusal && error.message.startsWith("Cannot ")) {
    const message = spellSettings(
      error.message,
      (name) => httpNames(name, SETTING_FIELDS[name])[0]!,
    );
    throw new ServiceError("refused", message);
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
