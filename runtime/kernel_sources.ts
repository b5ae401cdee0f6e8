/** The expanded WGSL of kernels, for whoever wants to read or check it: needs no GPU. */
import { traceCase, UnsupportedCase } from "./ops/conformance.ts";
import { OP_SUITES } from "./ops/suites.ts";
import { kernelSource } from "./executable.ts";
import type { Target } from "./target.ts";

/** One kernel as a dispatch needs it: specialised, with the accessors of its tensors. */
export interface KernelSource {
  /** Name of the op whose case led to it; the op may use kernels of others. */
  readonly op: string;
  /** The variant that was forced; empty for ops with a single way. */
  readonly variant: string;
  /** Name of the case. */
  readonly case: string;
  /** Name of the kernel: its file and parameters. */
  readonly kernel: string;
  /** Complete WGSL. */
  readonly wgsl: string;
}

/** Every kernel that the ops' case tables lead to on a target, variant by variant; each text once. */
export function* kernelSources(target: Target): Generator<KernelSource> {
  const seen = new Set<string>();
  for (const { op, variants, cases, operands } of OP_SUITES) {
    for (const variant of variants) {
      const forced: Target = {
        ...target,
        ...(operands && { operands }),
        ...(variant && { forcedVariants: { [op]: variant } }),
      };
      for (const testCase of cases) {
        for (const dispatch of dispatchesOf(testCase, forced)) {
          const wgsl = kernelSource(dispatch, forced);
          if (seen.has(wgsl)) continue;
          seen.add(wgsl);
          yield { op, variant, case: testCase.name, kernel: dispatch.kernel.name, wgsl };
        }
      }
    }
  }
}

/** The dispatches of a case; none where the target does not take it. */
function dispatchesOf(testCase: Parameters<typeof traceCase>[0], target: Target) {
  try {
    return traceCase(testCase, target).graph.dispatches;
  } catch (error) {
    if (error instanceof UnsupportedCase) return [];
    throw error;
  }
}
