/** Ops on matrix units that this machine has not, as Apple's, emulated. */
import { withMatrixUnits } from "../../tests/support/emulated_matrix_units.ts";
import { openDevice } from "../open_device.ts";
import { ATTENTION_SUITE } from "./attention/cases.ts";
import { type OpCase, runCase } from "../conformance.ts";
import { CONV2D_SUITE } from "./conv/cases.ts";
import { MATMUL_SUITE } from "./matmul/cases.ts";

/** A software driver compiles the emulated kernel of each for seconds: those with the shortest. */
const CASES: readonly [op: string, variant: string, suite: readonly OpCase[], name: RegExp][] = [
  ["attention", "matrix", ATTENTION_SUITE.cases, / d16 f32 (scale 1$|causal bias)/],
  ["conv2d", "matrix32", CONV2D_SUITE.cases, /^x \[1,6,5,8\].* residual f32$/],
  ["matmul", "matrix32", MATMUL_SUITE.cases, /^a \[16,64\] b \[64,48\] f32$/],
];

for (const [op, variant, cases, name] of CASES) {
  Deno.test({
    name: `${op} (${variant}) equals its reference on emulated units of f32; with DENOISE_SLOW`,
    ignore: !Deno.env.has("DENOISE_SLOW"),
    fn: async (t) => {
      const matrix = { m: 8, n: 8, k: 8, componentType: "f32" };
      const device = await openDevice({
        gpu: withMatrixUnits(navigator.gpu, undefined, matrix),
        ...{ schedule: "gpu", forceFallbackAdapter: true, forcedVariants: { [op]: variant } },
      });
      try {
        for (const testCase of cases.filter((testCase) => name.test(testCase.name))) {
          await t.step(testCase.name, () => runCase(device, testCase));
        }
      } finally {
        device.destroy();
      }
    },
  });
}
