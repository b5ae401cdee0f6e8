import { growSizes, type Op, raceInput, rowBench } from "../op.ts";
import { GROUP_NORM_SUITE, LAYER_NORM_SUITE, RMS_NORM_SUITE } from "./cases.ts";
import { groupNorm } from "./group_norm.ts";
import { layerNorm } from "./layer_norm.ts";
import { rmsNorm } from "./rms_norm.ts";

const SIZES = ["ROWS", "CHANNELS"] as const;

export const LAYER_NORM: Op = {
  name: "layerNorm",
  suites: [LAYER_NORM_SUITE],
  races: ([[1, 2048, 1536], [3, 1024, 160]] as const).map(([priority, rows, columns]) => ({
    priority,
    inputs: [raceInput([rows, columns])],
    grow: (factor) => [raceInput(growSizes([rows, columns], [65536, columns], factor))],
    build: (x) => layerNorm(x!, { eps: 1e-6 }),
  })),
  benches: { layer_norm: rowBench(SIZES, (x) => layerNorm(x, { eps: 1e-6 })) },
};

export const RMS_NORM: Op = {
  name: "rmsNorm",
  suites: [RMS_NORM_SUITE],
  races: ([[1, 2048, 1536], [3, 4096, 160]] as const).map(([priority, rows, columns]) => ({
    priority,
    inputs: [raceInput([rows, columns])],
    grow: (factor) => [raceInput(growSizes([rows, columns], [65536, columns], factor))],
    build: (x) => rmsNorm(x!, { eps: 1e-6 }),
  })),
  benches: {
    rms_norm: rowBench(SIZES, (x) => rmsNorm(x, { eps: 1e-6 })),
    l2_norm: rowBench(SIZES, (x) => rmsNorm(x, { eps: 1e-12, kind: "l2" })),
  },
};

export const GROUP_NORM: Op = {
  name: "groupNorm",
  suites: [GROUP_NORM_SUITE],
  races: ([[64, 256], [128, 128]] as const).map(([side, channels]) => ({
    priority: 3,
    inputs: [raceInput([1, side, side, channels])],
    build: (x) => groupNorm(x!, { groups: 32, eps: 1e-6, activation: "silu" }),
  })),
  benches: {
    group_norm: rowBench(
      ["POSITIONS", "CHANNELS"],
      (x) => groupNorm(x.reshape(1, ...x.shape), { groups: 32, eps: 1e-6 }).reshape(...x.shape),
    ),
  },
};
