/** What a job's LoRAs are for the engine, and what its failures are for the client. */

import { httpNames, SETTING_FIELDS, spellSettings } from "../../generation/mod.ts";
import { ApiError, modelFilesGone, ServiceError } from "../contract/errors.ts";
import type { JobLora } from "../contract/lora_requests.ts";
import type { LoraReport, LoraUse } from "../../engine/types.ts";
import { basename, dirname } from "../../platform/mod.ts";
import { ModelFilesError } from "../../engine/model_files_error.ts";
import { LoraError } from "../../models/lora/lora_error.ts";

/** @throws {ServiceError} with the engine's words when it refuses the request or the GPU was lost; anything else as it is */
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
  if (error instanceof ModelFilesError) throw modelFilesGone(error);
  if (error instanceof Error && error.name === "DeviceLostError") {
    const message =
      "Cannot finish the job: the GPU was lost, and is started again; send the request again";
    throw new ServiceError("device_lost", message, { retryAfter: 5, cause: error });
  }
  throw error;
}

/** What the engine is told; records of older versions have no LoRAs. */
export function toLoraUses(loras: readonly JobLora[] = []): LoraUse[] {
  return loras.map(({ file, alpha, strength, target, mode }) => ({
    path: file,
    strength,
    target,
    mode,
    ...(alpha === undefined ? {} : { alpha }),
  }));
}

/** What clients call the files of LoRAs. */
export function namesOf(loras: readonly JobLora[]): ReadonlyMap<string, string> {
  return new Map(loras.map(({ file, path }) => [file, path]));
}

/** Most problems of an answer; a file may have a million keys. */
const MAX_PROBLEMS = 10_000;
const MAX_LENGTH = 300;

/** Turns a {@link LoraError} into a 400 with all that is wrong; `names` are what clients call files, by their paths. */
export function loraRefusal(
  error: unknown,
  param: string,
  names: ReadonlyMap<string, string> = new Map(),
): unknown {
  if (!(error instanceof LoraError)) return error;
  const rename = (text: string) => {
    let renamed = text;
    for (const [file, name] of names) {
      renamed = renamed.replaceAll(file, name);
      // Settings lie beside the file, and where that is concerns nobody.
      const folder = dirname(file);
      if (dirname(folder) !== folder) {
        renamed = renamed.replaceAll(file.slice(0, -basename(file).length), "");
      }
    }
    return renamed;
  };
  const isDisabled = error.message === "Lora is not enabled";
  return new ApiError(400, rename(error.message), {
    param,
    code: isDisabled ? "lora_not_enabled" : "invalid_lora",
    problems: error.problems.slice(0, MAX_PROBLEMS).map((problem) =>
      rename(problem.slice(0, MAX_LENGTH))
    ),
  });
}

/** @throws {ApiError} 400 with the keys that fit no layer, of the first LoRA that has some */
export function refuseUnmatched(loras: readonly JobLora[], reports: readonly LoraReport[]): void {
  const report = reports.find(({ unmatchedKeys }) => unmatchedKeys.length > 0);
  if (!report) return;
  const { unmatchedKeys, index } = report;
  throw new ApiError(
    400,
    `${unmatchedKeys.length} keys of ${loras[index]!.path} fit no layer of this model`,
    { param: "strict", code: "unmatched_keys", problems: unmatchedKeys.slice(0, MAX_PROBLEMS) },
  );
}
