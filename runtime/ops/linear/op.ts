import type { StorageFormat } from "../../dtype.ts";
import { BLOCK_FORMATS } from "../../quantization/formats.ts";
import type { WeightFormat } from "../../quantization/block_format.ts";
import { growSizes, type Op, raceInput, type RaceProblem } from "../op.ts";
import { productLimits } from "../problem_class.ts";
import { LINEAR_CHECKS, LINEAR_INT8_SUITE, LINEAR_SUITE } from "./cases.ts";
import { linear } from "./mod.ts";

function race(
  priority: RaceProblem["priority"],
  [m, n, k]: readonly [number, number, number],
  dtype: StorageFormat,
): RaceProblem {
  const inputs = ([m, n, k]: readonly number[]) => [
    raceInput([m!, k!]),
    raceInput([n!, k!], dtype, 1 / Math.sqrt(k!)),
    raceInput([n!]),
  ];
  return {
    priority,
    inputs: inputs([m, n, k]),
    grow: (factor) => inputs(growSizes([m, n, k], productLimits(m, n), factor)),
    build: (x, w, bias) => linear(x!, w!, { bias: bias! }),
  };
}

/** `linear` with its tables. */
export const LINEAR: Op = {
  name: "linear",
  suites: [LINEAR_SUITE, LINEAR_INT8_SUITE],
  checks: LINEAR_CHECKS,
  races: [
    race(1, [1024, 1536, 1024], "f16"),
    race(1, [256, 640, 512], "f16"),
    race(1, [1024, 1536, 1024], "q8_0"),
    race(1, [1024, 1536, 1024], "q4_k"),
    race(1, [1, 1536, 1536], "f16"),
    race(2, [2, 1536, 1536], "f16"),
    race(2, [2304, 1536, 1024], "f16"),
    race(2, [256, 160, 512], "f16"),
    race(2, [1024, 160, 512], "f16"),
    race(2, [16, 640, 512], "f16"),
    race(3, [1, 1536, 1536], "q8_0"),
    race(3, [1, 1536, 1536], "q4_k"),
    race(3, [16, 1536, 1024], "q8_0"),
    race(3, [256, 1536, 1024], "q8_0"),
    race(3, [256, 1536, 1024], "q4_k"),
    race(3, [2304, 1536, 1024], "q8_0"),
    race(3, [2304, 1536, 1024], "q4_k"),
    race(3, [256, 640, 512], "f32"),
    race(3, [1024, 1536, 1024], "f32"),
    race(3, [1, 1536, 1536], "f32"),
  ],
  benches: {
    linear: {
      sizes: ["M", "N", "K"],
      weights: ["f32", "f16", "bf16", ...Object.keys(BLOCK_FORMATS) as WeightFormat[]],
      describe: ([m, n, k]) => ({
        inputs: [[m!, k!], [n!, k!]],
        output: [m!, n!],
        flops: 2 * m! * n! * k!,
      }),
      build: (x, w) => linear(x!, w!),
    },
  },
};
