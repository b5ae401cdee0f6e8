import type { StepCoefficients } from "../../models/schedulers/mod.ts";

/**
 * Carries out a step of a solver on the CPU, summing in float64: the reference for the GPU's kernel.
 *
 * @param tensors every tensor that the step names, all of one length; targets are changed in place
 */
export function applyStep(
  step: StepCoefficients,
  tensors: Readonly<Record<string, Float64Array | Float32Array>>,
): void {
  for (const { target, terms } of step) {
    const result = tensors[target]!;
    const sources = terms.map(({ tensor, scale }) => ({ data: tensors[tensor]!, scale }));
    for (let i = 0; i < result.length; i++) {
      result[i] = sources.reduce((sum, { data, scale }) => sum + scale * data[i]!, 0);
    }
  }
}
