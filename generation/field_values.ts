/** Parts of rows: which values a field may have, the checks of them, and when a setting changes nothing. */

import { shorten } from "./texts.ts";
import type { ModelInfo, SamplingSettings, TaskType } from "../engine/types.ts";
import { outputOf, type OutputType } from "./task.ts";

type Values<Value> = Pick<SettingField<Value>, "kind" | "check" | "bounds">;

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

export function numberWithin(least: number, most: number): Values<number> {
  return {
    kind: "number",
    bounds: () => [least, most],
    check: (value, name) => checkRange(value, name, least, most),
  };
}

/** Numbers of control pictures: one for all, or one for each. */
export function numbersWithin(least: number, most: number): Values<readonly number[]> {
  return {
    kind: "numbers",
    bounds: () => [least, most],
    check: (values, name) =>
      checkEach(values, name, (value) => checkRange(value, name, least, most)),
  };
}

/** @throws {RangeError} for an empty list, and what `check` throws */
export function checkEach<T>(values: readonly T[], name: string, check: (value: T) => void): void {
  if (values.length === 0) throw new RangeError(`${name} must not be an empty list`);
  for (const value of values) check(value);
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

/** Largest size that a model is told of. */
const MAX_TOLD = 16_384;

/** A pair of pixels, rows first, as SDXL sees it beside the prompt. */
export function sizeField(
  setting: ModelInfo["optionalSettings"][number],
  text: string,
  least = 1,
): SettingField<readonly number[]> {
  return {
    text,
    kind: "integers",
    placeholder: "pixels...",
    check: (value, name) => {
      const isPair = value.length === 2 &&
        value.every((each) => Number.isSafeInteger(each) && each >= least && each <= MAX_TOLD);
      if (isPair) return;
      throw new RangeError(
        `${name} must be two integers from ${least} to ${MAX_TOLD}, rows first, got [${value}]`,
      );
    },
    idle: unlessTaken(setting),
  };
}

export function oneOf<Word extends string>(
  choices: readonly Word[],
): Values<Word> & { readonly choices: readonly Word[] } {
  return { kind: "text", choices, check: (value, name) => checkChoice(value, name, choices) };
}

/** Words of control pictures: one for all, or one for each. */
export function someOf<Word extends string>(
  choices: readonly Word[],
): Values<readonly Word[]> & { readonly choices: readonly Word[] } {
  return {
    kind: "texts",
    choices,
    check: (values, name) => checkEach(values, name, (value) => checkChoice(value, name, choices)),
  };
}

export function checkFlag(value: boolean, name: string): void {
  if (typeof value !== "boolean") throw new RangeError(`${name} must be true or false`);
}

/** @throws {RangeError} that names all choices */
export function checkChoice<T>(value: T, name: string, choices: readonly T[]): void {
  if (choices.includes(value)) return;
  throw new RangeError(`${name} must be one of ${choices.join(", ")}, got ${value}`);
}

/** @throws {RangeError} below `least` or above `most` */
export function checkRange(value: number, name: string, least: number, most: number): void {
  if (value >= least && value <= most) return;
  throw new RangeError(`${name} must be from ${least} to ${most}, got ${value}`);
}

/** @throws {RangeError} unless it is a word in small letters */
export function checkWord(value: string, name: string): void {
  if (/^[a-z_]{1,32}$/.test(value)) return;
  throw new RangeError(`${name} must be a word in small letters, got ${shorten(value)}`);
}

/** @throws {RangeError} unless it is a short text */
export function checkName(value: string, name: string): void {
  if (typeof value === "string" && value !== "" && value.length <= MAX_NAME_LENGTH) return;
  throw new RangeError(
    `${name} must be a text of 1 to ${MAX_NAME_LENGTH} characters, got ${shorten(String(value))}`,
  );
}

/** @throws {RangeError} unless they descend from 1 at most to above 0, before the shift */
export function checkSigmas(
  sigmas: readonly number[],
  name: string,
  highest: number,
): void {
  if (!Array.isArray(sigmas) || sigmas.length === 0) {
    throw new RangeError(`${name} must be a list of numbers, got ${JSON.stringify(sigmas)}`);
  }
  for (const [i, sigma] of sigmas.entries()) {
    const above = sigmas[i - 1] ?? Infinity;
    if (sigma > 0 && sigma <= highest && sigma < above) continue;
    throw new RangeError(
      `${name} must descend from ${highest} at most to above 0, got ${sigma}` +
        (i > 0 ? ` after ${above}` : ""),
    );
  }
}

/** Longest name of a ControlNet, in UTF-16 units. */
const MAX_NAME_LENGTH = 256;

/** Longest prompt, in UTF-16 units: far beyond what any text encoder reads. */
export const MAX_PROMPT_LENGTH = 32_000;

/** Stands for a seed that is drawn, as leaving it out does. */
const RANDOM = -1;

/** Number of different seeds: the noise generator uses their lower 32 bits. */
const SEED_COUNT = 2 ** 32;

/** Negative prompts may be empty. @throws {RangeError} when it is blank or too long; {TypeError} when it is no text */
export function checkPrompt(name: string, prompt: string, mayBeEmpty = false): void {
  if (typeof prompt !== "string") {
    throw new TypeError(`Cannot generate: ${name} is ${typeof prompt}; give a text`);
  }
  if (!mayBeEmpty && prompt.trim() === "") {
    throw new RangeError(`Cannot generate: ${name} is empty; say what to make`);
  }
  if (prompt.length > MAX_PROMPT_LENGTH) {
    throw new RangeError(
      `Cannot use ${name}: it has ${prompt.length} characters, and the limit is ` +
        `${MAX_PROMPT_LENGTH}; shorten it`,
    );
  }
}

/** @throws {RangeError} outside 1 to `maxSteps` */
export function checkSteps(steps: number, maxSteps: number, name: string): void {
  if (!Number.isSafeInteger(steps) || steps <= 0) {
    throw new RangeError(`${name} must be positive`);
  }
  if (steps > maxSteps) {
    throw new RangeError(`${name} must be at most ${maxSteps}, got ${steps}`);
  }
}

/** @throws {RangeError} unless it is above 0 and at most 1 */
export function checkStrength(strength: number): void {
  if (!(strength > 0 && strength <= 1)) {
    throw new RangeError(`strength must be above 0 and at most 1, got ${strength}`);
  }
}

/** `count` seeds: one counts up, a list is taken as it is; for -1 or none it is `defaultSeed`, or drawn. */
export function resolveSeeds(
  seed: number | number[] | null | undefined,
  count: number,
  defaultSeed: number = RANDOM,
): number[] {
  const asked = seed ?? defaultSeed;
  const seeds = Array.isArray(asked)
    ? asked.map((one) => one === RANDOM ? drawSeed(1) : one)
    : countUp(asked === RANDOM ? drawSeed(count) : asked, count);
  if (seeds.length === 0) throw new RangeError("seed list must not be empty");
  if (
    seeds.length > 1 && !Array.isArray(asked) && !Number.isSafeInteger(seeds.at(-1)) &&
    Number.isSafeInteger(asked)
  ) {
    throw new RangeError(
      `Cannot count ${count} seeds up from ${asked}: the highest seed is ${Number.MAX_SAFE_INTEGER}`,
    );
  }
  for (const value of seeds) {
    if (Number.isSafeInteger(value) && value >= 0) continue;
    throw new RangeError(
      `seed must be a non-negative int or list of ints, or -1 for a new one, got ${value}`,
    );
  }
  if (seeds.length !== count) {
    throw new RangeError(
      `Cannot use ${seeds.length} seeds for ${count} output${
        count === 1 ? "" : "s"
      }: give one seed ` +
        "alone, or one for each",
    );
  }
  return seeds;
}

function countUp(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => first + index);
}

/** A seed from which `count` different ones can be counted. */
function drawSeed(count: number): number {
  const [drawn] = crypto.getRandomValues(new Uint32Array(1)) as unknown as [number];
  return Math.min(drawn, SEED_COUNT - count);
}

/** Gives why a setting changes nothing, as a clause, or nothing where it does change something. */
type Idle = NonNullable<SettingField<unknown>["idle"]>;

export function unlessTaken(name: ModelInfo["optionalSettings"][number]): Idle {
  return ({ optionalSettings }) =>
    optionalSettings.includes(name) ? undefined : "this model has no such setting";
}

/** A setting of the edges that a control picture is made of. */
export function unlessCanny(name: ModelInfo["optionalSettings"][number]): Idle {
  const unlessKnown = unlessTaken(name);
  return (info, task, given) =>
    unlessKnown(info, task, given) ??
      ([given.controlType].flat().includes("canny") ? undefined : "control_type is not canny");
}

/** A setting of the images that a video is made from. */
export function unlessFromImages(name: ModelInfo["optionalSettings"][number]): Idle {
  const unlessKnown = unlessTaken(name);
  return (info, task, given) =>
    unlessKnown(info, task, given) ??
      (task === "I2V" ? undefined : "the video is not made from images");
}

/** A setting of guidance away from what lacks layers. */
export function unlessSkipping(name: ModelInfo["optionalSettings"][number]): Idle {
  const unlessKnown = unlessTaken(name);
  return (info, task, given) =>
    unlessKnown(info, task, given) ??
      (given.skipGuidanceLayers ? undefined : "no layers are skipped");
}

export function unlessInterpolated(): Idle {
  return (_info, task, { enableFrameInterpolation }) => {
    if (outputOf(task) !== "VIDEO") return "an image has one frame";
    return enableFrameInterpolation === true ? undefined : "no frames are interpolated";
  };
}

type FieldKind = "text" | "integer" | "number" | "texts" | "integers" | "numbers" | "flag";

export interface Field {
  /** One sentence, without the full stop. */
  readonly text: string;
  /** Numbers are at least 0 on the command line, integers at least 1. */
  readonly kind: FieldKind;
  /** What a text may be, where it is one of a few. */
  readonly choices?: readonly string[];
  /** Names of the field over HTTP, where these are not its own with underscores; the first that is given wins. */
  readonly http?: readonly string[];
  /** The output that has it; every one by default. */
  readonly output?: OutputType;
  /** Name of its value in the help, such as `size` in `--max-size <size>` (default: its kind). */
  readonly placeholder?: string;
}

export type SettingLimits = Pick<
  ModelInfo,
  | "maxSteps"
  | "maxSequenceLength"
  | "optionalParts"
  | "layers"
  | "sampling"
  | "startsFromLatents"
>;

/** Settings of which lists may be a single value, which stands for a list of one. */
export type OneOrMore<Settings> = {
  [Name in keyof Settings]:
    | Settings[Name]
    | (Settings[Name] extends readonly (infer One)[] | undefined ? One : never);
};

export type GivenSettings = {
  readonly [Name in keyof SamplingSettings]?: OneOrMore<SamplingSettings>[Name] | null | undefined;
};

/** A row of a setting, which models may take or not. */
export interface SettingField<Value> extends Field {
  /** What a request gets that leaves it out. */
  readonly initial?: (info: ModelInfo, task: TaskType, given: GivenSettings) => Value | undefined;
  /** @throws {RangeError} that names the field by `name`; the value may not go with what else is given */
  readonly check: (
    value: Value,
    name: string,
    limits: SettingLimits,
    given: GivenSettings,
  ) => void;
  /** Why it changes nothing beside the others that are given, as a clause; nothing where it does. */
  readonly idle?: (
    info: ModelInfo,
    task: TaskType,
    given: Readonly<Partial<Record<keyof SamplingSettings, unknown>>>,
  ) => string | undefined;
  /** The least and the greatest value of a number, where there are such. */
  readonly bounds?: (limits: SettingLimits) => readonly [least: number, most: number];
  /** A value that asks for nothing, which nobody needs to be told of where it changes nothing. */
  readonly neutral?: Value;
}

/** The names of a field over HTTP; the first is the usual one. */
export function httpNames(name: string, { http }: Field): readonly string[] {
  return http ?? [snakeCase(name)];
}

/** `numFrames` as `num_frames`. */
export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
