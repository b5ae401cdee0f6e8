/**
 * The words of the contract for adapters.
 *
 * @module
 */

/** Components that adapters can be meant for, in the order of the reference. */
export const LORA_TARGETS = [
  "all",
  "transformer",
  "transformer_2",
  "critic",
  "text_encoder",
] as const;

/** One of {@link LORA_TARGETS}. */
export type LoraTargetName = typeof LORA_TARGETS[number];

/** How adapters may be brought in. */
export const MERGE_MODES = ["auto", "merge", "dynamic"] as const;

/** One of {@link MERGE_MODES}. */
export type MergeMode = typeof MERGE_MODES[number];
