/**
 * Checks of sampling parameters that images and videos share.
 *
 * @module
 */

/** Longest prompt, in UTF-16 units: far beyond what any text encoder reads. */
export const MAX_PROMPT_LENGTH = 32_000;

/** Seed of a request that names none, as in the reference. */
export const DEFAULT_SEED = 42;

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
 * @throws {RangeError} outside 1 to `maxSteps`
 */
export function checkSteps(steps: number, maxSteps: number): void {
  if (!Number.isSafeInteger(steps) || steps <= 0) {
    throw new RangeError("num_inference_steps must be positive");
  }
  if (steps > maxSteps) {
    throw new RangeError(`num_inference_steps must be at most ${maxSteps}, got ${steps}`);
  }
}

/**
 * Checks a guidance weight.
 *
 * @param name of the field, for the message
 * @param scale a number
 * @throws {RangeError} when it is not finite or negative
 */
export function checkGuidance(name: string, scale: number): void {
  if (!Number.isFinite(scale)) throw new RangeError(`${name} must be finite, got ${scale}`);
  if (scale < 0) throw new RangeError(`${name} must be non-negative`);
}

/**
 * Checks how much of a given clip is to be made anew.
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
 * @param seed a seed, a list of them, or nothing for {@link DEFAULT_SEED}
 * @param count number of outputs
 * @returns `count` seeds
 * @throws {RangeError} for a seed that is not a non-negative safe integer, or a list of another length
 */
export function resolveSeeds(seed: number | number[] | null | undefined, count: number): number[] {
  const first = seed ?? DEFAULT_SEED;
  const seeds = Array.isArray(first)
    ? first
    : Array.from({ length: count }, (_, index) => first + index);
  if (seeds.length === 0) throw new RangeError("seed list must not be empty");
  for (const value of seeds) {
    if (Number.isSafeInteger(value) && value >= 0) continue;
    throw new RangeError(`seed must be a non-negative int or list of ints, got ${value}`);
  }
  if (seeds.length !== count) {
    throw new RangeError(
      `seed list length must match num_outputs_per_prompt (${count}) or total outputs (${count}), ` +
        `got ${seeds.length}`,
    );
  }
  return seeds;
}
