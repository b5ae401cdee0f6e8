import { growSizes, type Op, raceInput, type RaceProblem } from "../op.ts";
import { productLimits } from "../problem_class.ts";
import { MATMUL_CHECKS, MATMUL_SUITE } from "./cases.ts";
import { matmul } from "./mod.ts";

function race([m, n, k]: readonly [number, number, number], transposeB: boolean): RaceProblem {
  const inputs = ([m, n, k]: readonly number[]) => [
    raceInput([1, m!, k!]),
    raceInput(transposeB ? [1, n!, k!] : [1, k!, n!], "f32", 1 / Math.sqrt(k!)),
  ];
  return {
    priority: 3,
    inputs: inputs([m, n, k]),
    grow: (factor) => inputs(growSizes([m, n, k], productLimits(m, n), factor)),
    build: (a, b) => matmul(a!, b!, { transposeB }),
  };
}

/** `matmul` with its tables. */
export const MATMUL: Op = {
  name: "matmul",
  suites: [MATMUL_SUITE],
  checks: MATMUL_CHECKS,
  races: [race([1024, 1024, 512], true), race([1024, 512, 1024], false)],
  benches: {
    matmul: {
      sizes: ["M", "N", "K"],
      describe: ([m, n, k]) => ({
        inputs: [[m!, k!], [k!, n!]],
        output: [m!, n!],
        flops: 2 * m! * n! * k!,
      }),
      build: (a, b) => matmul(a!, b!),
    },
  },
};
