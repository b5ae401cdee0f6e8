import type { Choice, Target, TargetFeatures, VariantTiming } from "../target.ts";

export interface Variant<Problem> {
  /** Short name, unique within the op: it appears in profiles and forces the variant in tests. */
  readonly name: string;
  /** The class of adapter it was made for; the other class takes it only when nothing else fits. */
  readonly schedule: Target["schedule"];
  /** Adapter on which the variant was raced; left out while none of its class has raced it. */
  readonly racedOn?: string;
  supports(problem: Problem, target: Target): boolean;
  /** Whether no rule and no race takes it beside others, so that only who names it does. */
  readonly isSpare?: boolean;
}

/** A variant must be this much faster than the rule's own: below, the clock decided and not the kernel. */
const PAR = 1.1;

/** Orders variants by preference: the fastest first, but the rule's own choice before it where both are on a par. */
export function rank(timings: readonly VariantTiming[], byRule: string): VariantTiming[] {
  const sorted = timings.toSorted((a, b) => a.microseconds - b.microseconds);
  const own = sorted.find(({ variant }) => variant === byRule);
  if (!own || own.microseconds > sorted[0]!.microseconds * PAR) return sorted;
  return [own, ...sorted.filter((timing) => timing !== own)];
}

/** The forced one, else the tuning run's for the class, else the first that fits; on GPUs those for software come last. */
export function chooseVariant<Problem, V extends Variant<Problem>>(
  op: string,
  variants: readonly V[],
  problem: Problem,
  target: Target,
  problemClass: string,
): V {
  const forced = target.forcedVariants[op];
  const able = variants.filter((variant) => variant.supports(problem, target));
  const fitting = able.filter(({ isSpare }) => !isSpare);
  if (forced !== undefined && !able.some(({ name }) => name === forced)) {
    throw new RangeError(
      `Cannot run ${op} as "${forced}": this variant does not take the problem`,
    );
  }
  const own = fitting.filter(({ schedule }) => schedule === target.schedule);
  const [first] = own.length > 0 ? own : fitting;
  if (!first) {
    throw new RangeError(`Cannot run ${op}: no variant takes the problem on this adapter`);
  }
  const takesOwn = target.schedule === "gpu" && own.length > 0;
  const entrants = takesOwn ? own : fitting;
  const known = (target.choices[op]?.[problemClass] ?? []).filter(({ variant }) =>
    able.some(({ name, schedule }) => name === variant && !(takesOwn && schedule === "cpu"))
  );
  const timings = rank(known, first.name);
  const measured = timings[0]?.variant;
  const name = forced ?? measured ?? first.name;
  const chosen = able.find((variant) => variant.name === name)!;
  target.onChoice?.({
    op,
    problemClass,
    variant: name,
    candidates: [first, ...entrants.filter((variant) => variant !== first)].map(({ name }) => name),
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

/**
 * Whether 8 x 8 sums of an invocation are too many for the registers: Intel's GPUs, with subgroups of 8 or 16 to 32,
 * spill them, and AMD's before RDNA, with subgroups of 64, keep a single wave.
 */
export function hasFewRegisters(
  { subgroups, subgroupMinSize, subgroupMaxSize }: TargetFeatures,
): boolean {
  return subgroups && (subgroupMinSize === 64 || subgroupMinSize <= 16 && subgroupMaxSize === 32);
}

/** Whether a variant may add up short runs of products in f16: those that ask for speed allow it, and the user who forces it. */
export function maySumInHalf(variant: string, { operands, forcedVariants }: Target): boolean {
  return operands === "int8" || Object.values(forcedVariants).includes(variant);
}

/** Whether every subgroup has exactly `size` invocations. */
export function hasSubgroupsOf(size: number, features: TargetFeatures): boolean {
  return features.subgroups && features.subgroupMinSize === size &&
    features.subgroupMaxSize === size;
}
