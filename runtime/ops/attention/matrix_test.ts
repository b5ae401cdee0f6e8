/** Attention on matrix units that this machine has not, emulated. */
import { withMatrixUnits } from "../../../tests/emulated_matrix_units.ts";
import { openDevice } from "../../open_device.ts";
import { runCase } from "../conformance.ts";
import { ATTENTION_SUITE } from "./cases.ts";

/** Cases of the shortest heads: a software driver compiles the emulated kernel of each for seconds. */
const CASES = ATTENTION_SUITE.cases.filter(({ name }) =>
  / d16 f32 (scale 1$|causal bias)/.test(name)
);

Deno.test({
  name: "attention (matrix) equals its reference on emulated units of f32; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async (t) => {
    const matrix = { m: 8, n: 8, k: 8, componentType: "f32" };
    const device = await openDevice({
      gpu: withMatrixUnits(navigator.gpu, undefined, matrix),
      ...{ schedule: "gpu", forceFallbackAdapter: true, forcedVariants: { attention: "matrix" } },
    });
    try {
      for (const testCase of CASES) {
        await t.step(testCase.name, () => runCase(device, testCase));
      }
    } finally {
      device.destroy();
    }
  },
});
