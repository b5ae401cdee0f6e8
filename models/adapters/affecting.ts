import type { AppliedAdapter, ModuleChange } from "./types.ts";

/**
 * The adapters that change certain modules, for the keys of what is made with them: a JSON value.
 *
 * @param isAffected tells those modules
 */
export function adaptersAffecting(
  adapters: readonly AppliedAdapter[],
  isAffected: (change: ModuleChange) => boolean,
): unknown {
  return adapters
    .filter(({ adapter, targets, strength }) =>
      strength !== 0 &&
      adapter.changes.some((change) => targets.includes(change.target) && isAffected(change))
    )
    .map(({ key, strength, targets, mode }) => [key, strength, targets, mode]);
}
