import { growSizes, type Op, raceInput, rowBench } from "../op.ts";
import { SOFTMAX_SUITE } from "./cases.ts";
import { softmax } from "./mod.ts";

const FLOPS_PER_ELEMENT = 5;

export const SOFTMAX: Op = {
  name: "softmax",
  suites: [SOFTMAX_SUITE],
  races: ([[4096, 1024], [1024, 256]] as const).map(([rows, columns]) => ({
    priority: 3,
    inputs: [raceInput([rows, columns])],
    grow: (factor) => [raceInput(growSizes([rows, columns], [65536, columns], factor))],
    build: (x) => softmax(x!),
  })),
  benches: { softmax: rowBench(["ROWS", "COLUMNS"], (x) => softmax(x), FLOPS_PER_ELEMENT) },
};
