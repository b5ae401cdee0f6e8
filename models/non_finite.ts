/**
 * What to say when a stage gives NaN or infinity, which a file could only show as a black picture.
 *
 * @module
 */
import type { Target, Weights } from "../runtime/mod.ts";

/** Guidance that no model is used with; beyond it, the values themselves overflow. */
const HIGH_GUIDANCE = 100;

/** Values that are not numbers came out where products round their factors to something narrow. */
export class OverflowError extends Error {
  override readonly name = "OverflowError";

  /** @param operands the narrowest factors */
  constructor(operands: Target["operands"]) {
    super(
      `Cannot finish the picture: the transformer gave values that are not numbers with factors rounded to ${operands}; ` +
        "ask for a quality below high",
    );
  }
}

/**
 * Looks at the sample after the first step: what overflows does so in every one, and the first tells it early.
 *
 * @param operands narrowest factors of the transformer's products; f32 when left out
 * @param parts whatever had a hand in it
 * @throws {OverflowError} when values are not numbers and wider factors may help
 * @throws {Error} of {@linkcode explainNonFinite} when they are not and nothing would
 */
export function checkFirstStep(
  sample: Float32Array,
  operands: Target["operands"] = "f32",
  parts: readonly Weights[],
  guidanceScale: number,
): void {
  if (isFinite(sample)) return;
  if (operands !== "f32") throw new OverflowError(operands);
  throw explainNonFinite("the transformer", parts, guidanceScale);
}

/** Whether all values are numbers. */
export function isFinite(values: Float32Array): boolean {
  for (let i = 0; i < values.length; i++) {
    if (!Number.isFinite(values[i])) return false;
  }
  return true;
}

/**
 * Looks for the cause of values that are not numbers. The weights are read once more for that.
 *
 * @param stage what gave them, such as `the transformer`
 * @param parts whatever had a hand in it
 * @returns the error to throw: a `RangeError` when the request is to blame
 */
export function explainNonFinite(
  stage: string,
  parts: readonly Weights[],
  guidanceScale: number,
): Error {
  const problem = `Cannot finish the picture: ${stage} gave values that are not numbers`;
  for (const weights of parts) {
    const name = weights.findNonFinite();
    if (name !== undefined) {
      return new Error(
        `${problem}, because tensor "${name}" in "${weights.path}" holds NaN or infinity; ` +
          "the file is damaged, fetch it again",
      );
    }
  }
  if (guidanceScale > HIGH_GUIDANCE) {
    return new RangeError(`${problem}, because guidanceScale is ${guidanceScale}; ask for less`);
  }
  return new Error(
    `${problem}, although all weights are; lower the strength of adapters, try another seed, and run "denoise doctor" to check the GPU`,
  );
}
