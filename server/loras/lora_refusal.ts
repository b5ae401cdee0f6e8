/** What a refused LoRA is for the client. */

import { dirname, sep } from "node:path";
import type { LoraReport } from "../../engine/types.ts";
import { LoraError } from "../../models/lora/lora_error.ts";
import { ApiError } from "../contract/errors.ts";
import type { JobLora } from "../contract/lora_requests.ts";

/** Most problems of an answer; a file may have a million keys. */
const MAX_PROBLEMS = 10_000;
const MAX_LENGTH = 300;

/**
 * Turns a {@link LoraError} into a 400 with the list of all that is wrong.
 *
 * @param names what clients call files on the server, by their paths
 */
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
      if (dirname(folder) !== folder) renamed = renamed.replaceAll(folder + sep, "");
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

/**
 * Refuses LoRAs with keys that fit no layer.
 *
 * @throws {ApiError} 400 with the keys of the first one that has some
 */
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
