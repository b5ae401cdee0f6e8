/** Checks of sampling parameters that images and videos share. */

/** Longest prompt, in UTF-16 units: far beyond what any text encoder reads. */
export const MAX_PROMPT_LENGTH = 32_000;

/** Stands for a seed that is drawn, as leaving it out does. */
const RANDOM = -1;

/** Number of different seeds: the noise generator uses their lower 32 bits. */
const SEED_COUNT = 2 ** 32;

/**
 * Checks a prompt.
 *
 * @param name of the field, for the message
 * @param prompt the text
 * @param mayBeEmpty true for negative prompts
 * @throws {RangeError} when it is blank or too long
 * @throws {TypeError} when it is no text
 */
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

/**
 * Checks a number of denoising steps.
 *
 * @param steps an integer
 * @param maxSteps of the model
 * @param name of the field, for the message
 * @throws {RangeError} outside 1 to `maxSteps`
 */
export function checkSteps(steps: number, maxSteps: number, name: string): void {
  if (!Number.isSafeInteger(steps) || steps <= 0) {
    throw new RangeError(`${name} must be positive`);
  }
  if (steps > maxSteps) {
    throw new RangeError(`${name} must be at most ${maxSteps}, got ${steps}`);
  }
}

/**
 * Checks how much of a given video is to be redrawn.
 *
 * @param strength a number
 * @throws {RangeError} unless it is above 0 and at most 1
 */
export function checkStrength(strength: number): void {
  if (!(strength > 0 && strength <= 1)) {
    throw new RangeError(`strength must be above 0 and at most 1, got ${strength}`);
  }
}

/**
 * One seed for each output: a single seed counts up, a list is taken as it is.
 *
 * @param seed a seed, or a list of them; -1, the default, draws a new one
 * @param count number of outputs
 * @param defaultSeed seed of requests without one, instead of a drawn one
 * @returns `count` seeds
 * @throws {RangeError} for a seed that is not a non-negative safe integer, or a list of another length
 */
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
