/** Which variants a device uses, class by class, and why. */
import { explainChoice } from "../ops/variants.ts";
import type { Target } from "../target.ts";
import { traceRace } from "./race.ts";
import { RACES } from "../ops/registry.ts";

/** The variant of an op for one class of problems. */
export interface KernelChoice {
  /** Name of the op. */
  readonly op: string;
  /** Class of the problem, in words. */
  readonly problemClass: string;
  /** Name of the variant. */
  readonly variant: string;
  /** Why, in a few words. */
  readonly why: string;
}

/** The choices for every class that a tuning run knows, ordered by op. */
export function listChoices(target: Target): KernelChoice[] {
  const choices = RACES.map((race) => traceRace(race, target).choice);
  return [...Map.groupBy(choices, ({ op }) => op).values()].flat().map((choice) => ({
    op: choice.op,
    problemClass: choice.problemClass,
    variant: choice.variant,
    why: explainChoice(choice, target.schedule),
  }));
}
