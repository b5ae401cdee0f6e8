import type { Choice, Target, TargetFeatures, VariantTiming } from "../target.ts";

/** One way to compute an op. */
export interface Variant<Problem> {
  /** Short name, unique within the op: it appears in profiles and forces the variant in tests. */
  readonly name: string;
  /** The class of adapter it was made for; the other class takes it only when nothing else fits. */
  readonly schedule: Target["schedule"];
  /** On what its place among the others was measured; left out while no adapter of its class has raced it. */
  readonly racedOn?: string;
  /** Whether it can compute this problem on this target at all. */
  supports(problem: Problem, target: Target): boolean;
}

/**
 * Chooses a variant: the forced one, else the one that the tuning run prefers for the class of the problem, else the
 * first of the target's class that fits, else the first that fits.
 *
 * @param problemClass of `runtime/ops/problem_class.ts`
 * @throws {RangeError} when the forced variant, or every variant, refuses the problem
 */
export function chooseVariant<Problem, V extends Variant<Problem>>(
  op: string,
  variants: readonly V[],
  problem: Problem,
  target: Target,
  problemClass: string,
): V {
  const forced = target.forcedVariants[op];
  const fitting = variants.filter((variant) => variant.supports(problem, target));
  if (forced !== undefined && !fitting.some(({ name }) => name === forced)) {
    throw new RangeError(
      `Cannot run ${op} as "${forced}": this variant does not take the problem`,
    );
  }
  const first = fitting.find(({ schedule }) => schedule === target.schedule) ?? fitting[0];
  if (!first) {
    throw new RangeError(`Cannot run ${op}: no variant takes the problem on this adapter`);
  }
  const timings = (target.choices[op]?.[problemClass] ?? [])
    .filter(({ variant }) => fitting.some(({ name }) => name === variant));
  const measured = timings[0]?.variant;
  const name = forced ?? measured ?? first.name;
  const chosen = fitting.find((variant) => variant.name === name)!;
  target.onChoice?.({
    op,
    problemClass,
    variant: name,
    candidates: [first, ...fitting.filter((variant) => variant !== first)].map(({ name }) => name),
    reason: forced !== undefined ? "forced" : measured !== undefined ? "measured" : "rule",
    timings,
    ...(chosen.racedOn !== undefined && { racedOn: chosen.racedOn }),
  });
  return chosen;
}

/** Why a variant was chosen, in a few words, such as `measured: 1.8× registers`. */
export function explainChoice(
  { candidates, racedOn, reason, timings }: Choice,
  schedule: Target["schedule"],
): string {
  if (reason === "forced") return "forced";
  if (candidates.length === 1) return "the only one that fits";
  if (reason === "rule") {
    return `rule for ${schedule} adapters${racedOn === undefined ? ", raced on none yet" : ""}`;
  }
  const [own, ...others] = timings;
  const next = others.reduce<VariantTiming | undefined>(
    (best, timing) => best && best.microseconds <= timing.microseconds ? best : timing,
    undefined,
  );
  if (!own || !next) return "measured: all others failed";
  const ratio = next.microseconds / own.microseconds;
  if (ratio >= 1) return `measured: ${ratio.toFixed(ratio < 9.95 ? 1 : 0)}× ${next.variant}`;
  return `measured: on a par with ${next.variant}`;
}

/** What the variants for software adapters were raced on. */
export const MESA_SOFTWARE = "Mesa's software adapter";

/** Whether every subgroup has exactly `size` invocations. */
export function hasSubgroupsOf(size: number, features: TargetFeatures): boolean {
  return features.subgroups && features.subgroupMinSize === size &&
    features.subgroupMaxSize === size;
}
