/** What answers say of a LoRA: how it was read, and what of it fits the model. */

import type { LoraReport } from "../../engine/types.ts";

/** Most keys that an answer lists; a file may have a million. */
const MAX_KEYS = 10_000;

/** A report as answers have it. */
interface ToldReport {
  readonly mode: LoraReport["mode"];
  readonly dialect: string;
  readonly note: string | null;
  readonly matched_layers: number;
  readonly unmatched_keys: readonly string[];
}

export function reportOf(
  { mode, note, dialect, layers, unmatchedKeys }: LoraReport,
): ToldReport {
  return {
    mode,
    dialect,
    note: note ?? null,
    matched_layers: layers.length,
    unmatched_keys: unmatchedKeys.slice(0, MAX_KEYS),
  };
}
