/** The kernels that tests of small models run, on a part of the cases: what models give with them is compared, too. */
import { openTestDevice } from "../../tests/support/model_run.ts";
import type { Target } from "../target.ts";
import { type OpCase, runCase, traceCase, UnsupportedCase } from "../conformance.ts";
import { OP_SUITES } from "./registry.ts";

/** One case in so many. */
const EVERY = Deno.env.has("DENOISE_SLOW") ? 1 : 9;

const adapter = await openTestDevice();
const { target } = adapter;
adapter.destroy();

for (
  const [op, variant] of [
    ["linear", "broadcast24"],
    ["matmul", "broadcast24"],
    ["attention", "broadcast8"],
    ["conv2d", "broadcast8"],
    ["causalConv3d", "broadcast8"],
  ] as const
) {
  const forcedVariants = { [op]: variant };
  const { cases } = OP_SUITES.find((suite) => suite.op === op)!;
  const taken = cases.filter((testCase) => isTaken(testCase, { ...target, forcedVariants }));
  const ignore = taken.length === 0;
  Deno.test({
    name: `${op} (${variant}) equals its reference${
      ignore ? ": the adapter has no subgroups of 8" : ""
    }`,
    ignore,
    fn: async (t) => {
      const device = await openTestDevice({ forcedVariants });
      try {
        for (const testCase of taken.filter((_, i) => i % EVERY === 0)) {
          await t.step(testCase.name, () => runCase(device, testCase, device.target));
        }
      } finally {
        device.destroy();
      }
    },
  });
}

function isTaken(testCase: OpCase, target: Target): boolean {
  try {
    traceCase(testCase, target);
    return true;
  } catch (error) {
    if (error instanceof UnsupportedCase) return false;
    throw error;
  }
}
