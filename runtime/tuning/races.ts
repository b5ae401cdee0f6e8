/**
 * The problems of a tuning run: one for each class that models often meet, those that take most of their time first,
 * because a run may end before all are done. Sizes are as small as their class allows with a GPU still filled.
 */
import type { StorageFormat } from "../dtype.ts";
import type { Tensor } from "../graph.ts";
import { attention } from "../ops/attention/mod.ts";
import { causalConv3d, conv2d } from "../ops/conv/mod.ts";
import { linear } from "../ops/linear/mod.ts";
import { matmul } from "../ops/matmul/mod.ts";
import { groupNorm, layerNorm, rmsNorm } from "../ops/norm/mod.ts";
import { softmax } from "../ops/softmax/mod.ts";
import type { Shape } from "../shape.ts";

/** One problem that every variant of an op computes in turn. */
export interface Race {
  /** Name of the op, as in `Target.choices`. */
  readonly op: string;
  /** What the op is given. */
  readonly inputs: readonly RaceInput[];
  /** Calls the op. */
  build(...tensors: Tensor[]): Tensor;
}

/** One input: random numbers. */
export interface RaceInput {
  /** Sizes, outermost first; a quantised weight has rows in multiples of 64. */
  readonly shape: Shape;
  /** How it is stored. */
  readonly dtype: StorageFormat;
  /** Root of the mean square of the numbers. */
  readonly magnitude: number;
}

function input(shape: Shape, dtype: StorageFormat = "f32", magnitude = 1): RaceInput {
  return { shape, dtype, magnitude };
}

function linearRace(m: number, n: number, k: number, dtype: StorageFormat): Race {
  return {
    op: "linear",
    inputs: [input([m, k]), input([n, k], dtype, 1 / Math.sqrt(k)), input([n])],
    build: (x, w, bias) => linear(x!, w!, { bias: bias! }),
  };
}

function matmulRace(count: number, m: number, n: number, k: number, transposeB: boolean): Race {
  const shape = transposeB ? [count, n, k] : [count, k, n];
  return {
    op: "matmul",
    inputs: [input([count, m, k]), input(shape, "f32", 1 / Math.sqrt(k))],
    build: (a, b) => matmul(a!, b!, { transposeB }),
  };
}

function attentionRace(lq: number, lk: number, heads: number, headDim: number): Race {
  const keys = input([1, lk, heads, headDim]);
  return {
    op: "attention",
    inputs: [input([1, lq, heads, headDim]), keys, keys],
    build: (q, k, v) => attention(q!, k!, v!),
  };
}

function convRace(
  op: "conv2d" | "causalConv3d",
  side: number,
  inChannels: number,
  channels: number,
): Race {
  const isVideo = op === "causalConv3d";
  // Three frames without zeros before them give one frame: all taps do work.
  const [frames, taps] = isVideo ? [[3], [3, 3, 3]] : [[], [3, 3]];
  const terms = 3 ** taps.length * inChannels;
  const padding = [1, 1, 1, 1] as const;
  return {
    op,
    inputs: [
      input([1, ...frames, side, side, inChannels]),
      input([channels, ...taps, inChannels], "f16", 1 / Math.sqrt(terms)),
      input([channels]),
    ],
    build: (x, weight, bias) =>
      isVideo
        ? causalConv3d(x!, weight!, { bias, padding, frontPadding: 0 })
        : conv2d(x!, weight!, { bias, padding }),
  };
}

function rowRace(op: "layerNorm" | "rmsNorm" | "softmax", rows: number, columns: number): Race {
  return {
    op,
    inputs: [input([rows, columns])],
    build: (x) =>
      op === "softmax"
        ? softmax(x!)
        : (op === "layerNorm" ? layerNorm : rmsNorm)(x!, { eps: 1e-6 }),
  };
}

function groupNormRace(side: number, channels: number): Race {
  return {
    op: "groupNorm",
    inputs: [input([1, side, side, channels])],
    build: (x) => groupNorm(x!, { groups: 32, eps: 1e-6, activation: "silu" }),
  };
}

/** All races, in the order in which a tuning run does them. */
export const RACES: readonly Race[] = [
  linearRace(1024, 1536, 1024, "f16"),
  linearRace(256, 640, 512, "f16"),
  attentionRace(1024, 1024, 8, 64),
  attentionRace(1024, 1024, 4, 128),
  convRace("causalConv3d", 64, 64, 96),
  convRace("conv2d", 64, 128, 128),
  linearRace(1024, 1536, 1024, "q8_0"),
  linearRace(1024, 1536, 1024, "q4_k"),
  linearRace(1, 1536, 1536, "f16"),
  rowRace("layerNorm", 2048, 1536),
  rowRace("rmsNorm", 2048, 1536),
  linearRace(2, 1536, 1536, "f16"),
  linearRace(2304, 1536, 1024, "f16"),
  linearRace(256, 160, 512, "f16"),
  linearRace(1024, 160, 512, "f16"),
  attentionRace(1024, 77, 8, 64),
  attentionRace(256, 77, 4, 128),
  attentionRace(64, 64, 8, 64),
  linearRace(16, 640, 512, "f16"),
  convRace("causalConv3d", 128, 32, 64),
  convRace("causalConv3d", 32, 64, 64),
  convRace("causalConv3d", 32, 96, 96),
  convRace("causalConv3d", 128, 32, 12),
  convRace("conv2d", 128, 64, 64),
  convRace("conv2d", 32, 256, 256),
  convRace("conv2d", 128, 64, 3),
  convRace("conv2d", 256, 128, 128),
  linearRace(1, 1536, 1536, "q8_0"),
  linearRace(1, 1536, 1536, "q4_k"),
  linearRace(16, 1536, 1024, "q8_0"),
  linearRace(256, 1536, 1024, "q8_0"),
  linearRace(256, 1536, 1024, "q4_k"),
  linearRace(2304, 1536, 1024, "q8_0"),
  linearRace(2304, 1536, 1024, "q4_k"),
  linearRace(256, 640, 512, "f32"),
  linearRace(1024, 1536, 1024, "f32"),
  linearRace(1, 1536, 1536, "f32"),
  attentionRace(2048, 2048, 8, 128),
  groupNormRace(64, 256),
  groupNormRace(128, 128),
  rowRace("rmsNorm", 4096, 160),
  rowRace("layerNorm", 1024, 160),
  rowRace("softmax", 4096, 1024),
  rowRace("softmax", 1024, 256),
  matmulRace(1, 1024, 1024, 512, true),
  matmulRace(1, 1024, 512, 1024, false),
];
