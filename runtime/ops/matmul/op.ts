import { type Op, raceInput, type RaceProblem } from "../op.ts";
import { MATMUL_CHECKS, MATMUL_SUITE } from "./cases.ts";
import { matmul } from "./mod.ts";

function race([m, n, k]: readonly [number, number, number], transposeB: boolean): RaceProblem {
  const shape = transposeB ? [1, n, k] : [1, k, n];
  return {
    priority: 3,
    inputs: [raceInput([1, m, k]), raceInput(shape, "f32", 1 / Math.sqrt(k))],
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
