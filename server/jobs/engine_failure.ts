/**
 * What a failed generation is for the client.
 *
 * @module
 */

import { ApiError, badRequest } from "../contract/errors.ts";
import { type JobLora, namesOf } from "../loras/job_lora.ts";
import { loraRefusal } from "../loras/lora_refusal.ts";

/**
 * Turns what the engine threw into what the job ends with.
 *
 * @param error what the engine threw
 * @param loras adapters of the generation
 * @throws {ApiError} 400 with the engine's words when it refuses the request, 503 when the GPU was
 * lost; anything else as it is
 */
export function explainEngineFailure(error: unknown, loras: readonly JobLora[] = []): never {
  // A request that the model refuses says so in a sentence; other type errors are defects of ours.
  const isRefusal = error instanceof RangeError || error instanceof TypeError;
  if (isRefusal && error.message.startsWith("Cannot ")) throw badRequest(error.message);
  const refusal = loraRefusal(error, "loras", namesOf(loras));
  if (refusal instanceof ApiError) throw refusal;
  if (error instanceof Error && error.name === "DeviceLostError") {
    throw new ApiError(
      503,
      "Cannot finish the job: the GPU was lost, and is started again; send the request again",
      { code: "device_lost", headers: { "retry-after": "5" }, cause: error },
    );
  }
  throw error;
}
