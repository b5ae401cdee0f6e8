import type { Target, TargetFeatures } from "../target.ts";

/** One way to compute an op. */
export interface Variant<Problem> {
  /** Short name, unique within the op: it appears in profiles and forces the variant in tests. */
  readonly name: string;
  /** The class of adapter it was made for; the other class takes it only when nothing else fits. */
  readonly schedule: Target["schedule"] | "any";
  /** Whether it can compute this problem on this target at all. */
  supports(problem: Problem, target: Target): boolean;
}

/**
 * Chooses a variant: the forced one, else the first of the target's class that fits, else the first that fits.
 *
 * @throws {RangeError} when the forced variant, or every variant, refuses the problem
 */
export function chooseVariant<Problem, V extends Variant<Problem>>(
  op: string,
  variants: readonly V[],
  problem: Problem,
  target: Target,
): V {
  const forced = target.forcedVariants[op];
  if (forced !== undefined) {
    const variant = variants.find(({ name }) => name === forced);
    if (!variant?.supports(problem, target)) {
      throw new RangeError(
        `Cannot run ${op} as "${forced}": this variant does not take the problem`,
      );
    }
    return variant;
  }
  const fitting = variants.filter((variant) => variant.supports(problem, target));
  const chosen =
    fitting.find(({ schedule }) => schedule === target.schedule || schedule === "any") ??
      fitting[0];
  if (!chosen) {
    throw new RangeError(`Cannot run ${op}: no variant takes the problem on this adapter`);
  }
  return chosen;
}

/** Whether every subgroup has exactly `size` invocations. */
export function hasSubgroupsOf(size: number, features: TargetFeatures): boolean {
  return features.subgroups && features.subgroupMinSize === size &&
    features.subgroupMaxSize === size;
}
