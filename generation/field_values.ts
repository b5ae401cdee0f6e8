/** Parts of rows that say which values a setting may have: its kind, its bounds or choices, and the check of them. */
import type { SettingField, SettingLimits } from "./field.ts";
import { shorten } from "./shorten.ts";

/** What a row says of values. */
type Values<Value> = Pick<SettingField<Value>, "kind" | "check" | "bounds">;

/** True or false. */
export const FLAG: Values<boolean> = { kind: "flag", check: checkFlag };

/** A weight of guidance: 0 or above. */
export const GUIDANCE: Values<number> = {
  kind: "number",
  bounds: () => [0, Infinity],
  check: (value, name) => {
    if (!Number.isFinite(value)) throw new RangeError(`${name} must be finite, got ${value}`);
    if (value < 0) throw new RangeError(`${name} must be non-negative`);
  },
};

/** A number from `least` to `most`. */
export function numberWithin(least: number, most: number): Values<number> {
  return {
    kind: "number",
    bounds: () => [least, most],
    check: (value, name) => checkRange(value, name, least, most),
  };
}

/** An integer from 1, or `least`, to what a model can do. */
export function integerUpTo(
  most: (limits: SettingLimits) => number,
  least = 1,
): Values<number> {
  return {
    kind: "integer",
    bounds: (limits) => [least, most(limits)],
    check: (value, name, limits) => {
      if (!Number.isSafeInteger(value)) {
        throw new RangeError(`${name} must be an integer, got ${value}`);
      }
      checkRange(value, name, least, most(limits));
    },
  };
}

/** One of a few words. */
export function oneOf<Word extends string>(
  choices: readonly Word[],
): Values<Word> & { readonly choices: readonly Word[] } {
  return { kind: "text", choices, check: (value, name) => checkChoice(value, name, choices) };
}

/**
 * Checks a flag.
 *
 * @throws {RangeError} unless it is true or false
 */
export function checkFlag(value: boolean, name: string): void {
  if (typeof value !== "boolean") throw new RangeError(`${name} must be true or false`);
}

/**
 * Checks that a value is one of a few.
 *
 * @throws {RangeError} that names all of them
 */
export function checkChoice<T>(value: T, name: string, choices: readonly T[]): void {
  if (choices.includes(value)) return;
  throw new RangeError(`${name} must be one of ${choices.join(", ")}, got ${value}`);
}

/**
 * Checks a number.
 *
 * @throws {RangeError} below `least` or above `most`
 */
export function checkRange(value: number, name: string, least: number, most: number): void {
  if (value >= least && value <= most) return;
  throw new RangeError(`${name} must be from ${least} to ${most}, got ${value}`);
}

/**
 * Checks the name of a mode.
 *
 * @throws {RangeError} unless it is a word in small letters
 */
export function checkWord(value: string, name: string): void {
  if (/^[a-z_]{1,32}$/.test(value)) return;
  throw new RangeError(`${name} must be a word in small letters, got ${shorten(value)}`);
}

/**
 * Checks sigmas before the shift.
 *
 * @throws {RangeError} unless they descend from 1 at most to above 0
 */
export function checkSigmas(sigmas: readonly number[], name: string): void {
  if (!Array.isArray(sigmas) || sigmas.length === 0) {
    throw new RangeError(`${name} must be a list of numbers, got ${JSON.stringify(sigmas)}`);
  }
  for (const [i, sigma] of sigmas.entries()) {
    const above = sigmas[i - 1] ?? Infinity;
    if (sigma > 0 && sigma <= 1 && sigma < above) continue;
    throw new RangeError(
      `${name} must descend from 1 at most to above 0, got ${sigma}` +
        (i > 0 ? ` after ${above}` : ""),
    );
  }
}
