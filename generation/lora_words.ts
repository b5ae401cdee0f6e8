/** The words of the contract for LoRAs. */

/** Components that LoRAs can be meant for, in the order of the reference. */
export const LORA_TARGETS: readonly LoraTargetName[] = [
  "all",
  "transformer",
  "transformer_2",
  "critic",
  "text_encoder",
];

/** A target of LoRAs, one of {@link LORA_TARGETS}. */
export type LoraTargetName = "all" | "transformer" | "transformer_2" | "critic" | "text_encoder";

export const MERGE_MODES: readonly MergeMode[] = ["auto", "merge", "dynamic"];

/** How a LoRA is brought in, one of {@link MERGE_MODES}. */
export type MergeMode = "auto" | "merge" | "dynamic";
