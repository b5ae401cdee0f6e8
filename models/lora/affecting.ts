import type { AppliedLora, ModuleChange } from "./types.ts";

/** The LoRAs that change certain modules, for the keys of what is made with them: a JSON value. */
export function lorasAffecting(
  loras: readonly AppliedLora[],
  isAffected: (change: ModuleChange) => boolean,
): unknown {
  return loras
    .filter(({ lora, targets, strength }) =>
      strength !== 0 &&
      lora.changes.some((change) => targets.includes(change.target) && isAffected(change))
    )
    .map(({ key, strength, targets, mode }) => [key, strength, targets, mode]);
}
