/** Lints the WGSL of every kernel that the ops' case tables lead to; needs no GPU. */
import assert from "node:assert/strict";
import type { Dispatch } from "../runtime/graph.ts";
import { type OpCase, traceCase, UnsupportedCase } from "../runtime/ops/conformance.ts";
import { OP_SUITES } from "../runtime/ops/suites.ts";
import { kernelSource } from "../runtime/executable.ts";
import { BASELINE_TARGET, type Target } from "../runtime/target.ts";
import { lintWgsl } from "../tools/lint/wgsl.ts";

/** A GPU, a software adapter with subgroups, a GPU on which tensors take several bindings, and two with matrix units. */
const TARGETS: readonly Target[] = [
  BASELINE_TARGET,
  {
    ...BASELINE_TARGET,
    schedule: "cpu",
    features: {
      ...BASELINE_TARGET.features,
      subgroups: true,
      subgroupMinSize: 8,
      subgroupMaxSize: 8,
    },
  },
  {
    ...BASELINE_TARGET,
    limits: { ...BASELINE_TARGET.limits, maxBindingBytes: 1024, maxStorageBuffers: 16 },
  },
  withMatrices({ m: 16, n: 16, k: 16 }, 32, 32),
  withMatrices({ m: 8, n: 16, k: 16 }, 8, 64),
];

function withMatrices(
  sizes: { m: number; n: number; k: number },
  subgroupMinSize: number,
  subgroupMaxSize: number,
): Target {
  return {
    ...BASELINE_TARGET,
    limits: { ...BASELINE_TARGET.limits, maxWorkgroupMemoryBytes: 32 * 1024 },
    features: {
      ...BASELINE_TARGET.features,
      f16: true,
      subgroups: true,
      subgroupMinSize,
      subgroupMaxSize,
      subgroupSizeControl: true,
      subgroupMatrices: [{ componentType: "f16", resultComponentType: "f32", ...sizes }],
    },
  };
}

for (const { op, variants, cases, operands = "f32" } of OP_SUITES) {
  Deno.test(`lintWgsl() finds nothing in the kernels of ${op} on ${operands} operands`, () => {
    const linted = new Set<string>();
    for (const variant of variants) {
      let taken = 0;
      for (const target of TARGETS) {
        for (const testCase of cases) {
          for (const dispatch of dispatchesOf(testCase, force(target, op, variant, operands))) {
            taken++;
            const wgsl = kernelSource(dispatch, target);
            if (linted.has(wgsl)) continue;
            linted.add(wgsl);
            const problems = lintWgsl(wgsl).map(({ line, rule, message }) =>
              `${dispatch.label}:${line} ${rule}: ${message}`
            );
            assert.deepEqual(problems, [], `${op} ${variant}: ${testCase.name}`);
          }
        }
      }
      assert.ok(taken > 0, `no target and case lead to variant "${variant}"`);
    }
  });
}

Deno.test("a kernel's name holds every specialisation: the same name has the same body", () => {
  const bodies = new Map<string, string>();
  for (const { op, variants, cases, operands = "f32" } of OP_SUITES) {
    for (const variant of variants) {
      for (const target of TARGETS) {
        for (const testCase of cases) {
          for (const { kernel } of dispatchesOf(testCase, force(target, op, variant, operands))) {
            const known = bodies.get(kernel.name) ?? kernel.body;
            assert.ok(known === kernel.body, `"${kernel.name}" has two bodies: ${testCase.name}`);
            bodies.set(kernel.name, known);
          }
        }
      }
    }
  }
  assert.ok(bodies.size > 0);
});

function force(
  target: Target,
  op: string,
  variant: string,
  operands: Target["operands"],
): Target {
  return { ...target, operands, ...(variant && { forcedVariants: { [op]: variant } }) };
}

/** The dispatches of a case; none where the target does not take it. */
function dispatchesOf(testCase: OpCase, target: Target): readonly Dispatch[] {
  try {
    return traceCase(testCase, target).graph.dispatches;
  } catch (error) {
    if (error instanceof UnsupportedCase) return [];
    throw error;
  }
}
