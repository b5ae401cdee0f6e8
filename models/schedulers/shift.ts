/**
 * Time shifting of flow-matching sigmas: more steps at high noise for larger images. The reference computes some in float32
 * and some in float64, so every formula takes the rounding: `Math.fround`, or {@link exact}.
 */

import {
  booleanField,
  boundedField,
  choiceField,
  MAX_SHIFT,
  type SchedulerConfig,
  terminalField,
} from "./config.ts";
import type { ScheduleOptions } from "./schedule.ts";
import { SettingError } from "../setting_error.ts";

export type Rounding = (value: number) => number;

export function exact(value: number): number {
  return value;
}

/** σ' = s·σ / (1 + (s − 1)·σ). `shift` 1 leaves σ as it is. */
function staticShift(sigma: number, shift: number, round: Rounding): number {
  const numerator = round(round(shift) * sigma);
  return round(numerator / round(1 + round(round(shift - 1) * sigma)));
}

/** How `mu` acts: exponential σ' = e^μ / (e^μ + 1/σ − 1), linear σ' = μ / (μ + 1/σ − 1). */
type TimeShiftType = "exponential" | "linear";

/** Dynamic shifting (`use_dynamic_shifting`) of one sigma in (0, 1]. */
function dynamicShift(
  sigma: number,
  mu: number,
  type: TimeShiftType,
  round: Rounding,
): number {
  const weight = round(type === "exponential" ? Math.exp(mu) : mu);
  return round(weight / round(weight + round(round(1 / sigma) - 1)));
}

/** Stretches sigmas so that the last is `terminal` and 1 stays 1: 1 − (1 − σ)·(1 − terminal) / (1 − σ_last). */
function stretchToTerminal(
  sigmas: readonly number[],
  terminal: number,
  round: Rounding,
): number[] {
  const distances = sigmas.map((sigma) => round(1 - sigma));
  if (distances[distances.length - 1] === 0) {
    throw new SettingError(
      "numInferenceSteps",
      `Cannot make a schedule: shift_terminal ${terminal} needs a last sigma below 1; take more steps`,
    );
  }
  const factor = round(distances[distances.length - 1]! / round(1 - terminal));
  return distances.map((distance) => round(1 - round(distance / factor)));
}

export class SigmaShift {
  readonly isDynamic: boolean;
  readonly #shift: number;
  readonly #type: TimeShiftType;
  readonly #terminal: number | undefined;

  constructor(config: SchedulerConfig, key: "shift" | "flow_shift") {
    this.#shift = boundedField(config, key, 1, 1 / MAX_SHIFT, MAX_SHIFT);
    this.isDynamic = booleanField(config, "use_dynamic_shifting", false);
    this.#type = choiceField(config, "time_shift_type", ["exponential", "linear"], "exponential");
    this.#terminal = terminalField(config);
  }

  applyStatic(sigma: number, round: Rounding, shift: number = this.#shift): number {
    return this.isDynamic ? sigma : staticShift(sigma, shift, round);
  }

  apply(
    sigmas: readonly number[],
    { mu, shift = this.#shift }: Pick<ScheduleOptions, "mu" | "shift">,
    round: Rounding,
  ): number[] {
    if (shift !== this.#shift) this.#check(shift);
    const shifted = sigmas.map(this.#one(mu, shift, round));
    return this.#terminal === undefined
      ? shifted
      : stretchToTerminal(shifted, this.#terminal, round);
  }

  shiftOne(
    sigma: number,
    { mu, shift = this.#shift }: Pick<ScheduleOptions, "mu" | "shift">,
  ): number {
    if (shift !== this.#shift) this.#check(shift);
    return this.#one(mu, shift, exact)(sigma);
  }

  #check(shift: number): void {
    if (this.isDynamic) {
      throw new SettingError(
        "flowShift",
        `Cannot make a schedule with shift ${shift}: this scheduler's shift follows from the size; omit it`,
      );
    }
    if (shift >= 1 / MAX_SHIFT && shift <= MAX_SHIFT) return;
    throw new SettingError(
      "flowShift",
      `Cannot make a schedule with shift ${shift}: it must be from ${
        1 / MAX_SHIFT
      } to ${MAX_SHIFT}`,
    );
  }

  #one(mu: number | undefined, shift: number, round: Rounding): (sigma: number) => number {
    if (!this.isDynamic) return (sigma) => staticShift(sigma, shift, round);
    if (mu === undefined) {
      throw new RangeError(
        "Cannot make a schedule: the scheduler uses dynamic shifting and mu is not given",
      );
    }
    return (sigma) => dynamicShift(sigma, mu, this.#type, round);
  }
}

/** `count` values from `first` to `last`, both included, as NumPy's linspace spaces them. */
export function linspace(first: number, last: number, count: number): number[] {
  const step = (last - first) / (count - 1);
  return Array.from(
    { length: count },
    (_, i) => i === 0 ? first : i === count - 1 ? last : i * step + first,
  );
}
