import { elementCount } from "../../shape.ts";
import type { StorageFormat } from "../../dtype.ts";
import type { GroupNormOptions } from "../norm/group_norm.ts";
import { growSizes, type Op, raceInput, type RaceProblem } from "../op.ts";
import { CAUSAL_CONV3D_CHECKS, CAUSAL_CONV3D_SUITE, CONV2D_CHECKS, CONV2D_SUITE } from "./cases.ts";
import { causalConv3d } from "./causal_conv3d.ts";
import { conv2d } from "./conv2d.ts";

/** A border of 1 around a kernel of 3 x 3. */
const PADDING = [1, 1, 1, 1] as const;
const WEIGHTS: readonly StorageFormat[] = ["f32", "f16", "bf16"];

/** Input, weight and bias of a convolution from `[side, inChannels, channels]`. */
function inputs(
  [side, inChannels, channels]: readonly [number, number, number],
  frames: readonly number[],
  taps: readonly number[],
  batch = 1,
): RaceProblem["inputs"] {
  const terms = inChannels * elementCount(taps);
  return [
    raceInput([batch, ...frames, side, side, inChannels]),
    raceInput([channels, ...taps, inChannels], "f16", 1 / Math.sqrt(terms)),
    raceInput([channels]),
  ];
}

/** More images, up to so many, and channels as models have them. */
function grown(
  [side, inChannels, channels]: readonly [number, number, number],
  frames: readonly number[],
  taps: readonly number[],
  factor: number,
  images = 16,
): RaceProblem["inputs"] {
  const limits = [images, 512, channels > 64 ? 512 : channels];
  const [batch, more, outputs] = growSizes([1, inChannels, channels], limits, factor) as [
    number,
    number,
    number,
  ];
  return inputs([side, more, outputs], frames, taps, batch);
}

function race2d(
  priority: RaceProblem["priority"],
  sizes: readonly [number, number, number],
  norm?: GroupNormOptions,
): RaceProblem {
  return {
    priority,
    inputs: inputs(sizes, [], [3, 3]),
    // What is normalised before has to be bound beside its result.
    grow: (factor) => grown(sizes, [], [3, 3], factor, norm && 2),
    build: (x, w, bias) => conv2d(x!, w!, { bias: bias!, padding: PADDING, norm }),
  };
}

/** As autoencoders of images have it. */
const NORM: GroupNormOptions = { groups: 32, eps: 1e-6, activation: "silu" };

/** Three frames without zeros before them give one frame: all taps do work. */
function race3d(
  priority: RaceProblem["priority"],
  sizes: readonly [number, number, number],
): RaceProblem {
  return {
    priority,
    inputs: inputs(sizes, [3], [3, 3, 3]),
    grow: (factor) => grown(sizes, [3], [3, 3, 3], factor),
    build: (x, w, bias) => causalConv3d(x!, w!, { bias: bias!, padding: PADDING, frontPadding: 0 }),
  };
}

/** `conv2d` with its tables. */
export const CONV2D: Op = {
  name: "conv2d",
  suites: [CONV2D_SUITE],
  checks: CONV2D_CHECKS,
  races: [
    race2d(1, [64, 128, 128]),
    race2d(2, [128, 64, 64]),
    race2d(2, [32, 256, 256]),
    race2d(2, [128, 64, 3]),
    race2d(2, [256, 128, 128]),
    race2d(2, [256, 128, 128], NORM),
    race2d(2, [128, 512, 512], NORM),
    race2d(2, [32, 256, 256], NORM),
    race2d(2, [256, 128, 3], NORM),
  ],
  benches: {
    conv2d: {
      sizes: ["HEIGHT", "WIDTH", "IN_CHANNELS", "CHANNELS"],
      weights: WEIGHTS,
      describe: ([height, width, inChannels, channels]) => ({
        inputs: [[1, height!, width!, inChannels!], [channels!, 3, 3, inChannels!]],
        output: [1, height!, width!, channels!],
        flops: 2 * height! * width! * channels! * 9 * inChannels!,
      }),
      build: (x, w) => conv2d(x!, w!, { padding: PADDING }),
    },
  },
};

/** `causalConv3d` with its tables. */
export const CAUSAL_CONV3D: Op = {
  name: "causalConv3d",
  suites: [CAUSAL_CONV3D_SUITE],
  checks: CAUSAL_CONV3D_CHECKS,
  races: [
    race3d(1, [64, 64, 96]),
    race3d(2, [128, 32, 64]),
    race3d(2, [32, 64, 64]),
    race3d(2, [32, 96, 96]),
    race3d(2, [128, 32, 12]),
  ],
  benches: {
    conv3d: {
      sizes: ["FRAMES", "HEIGHT", "WIDTH", "IN_CHANNELS", "CHANNELS"],
      weights: WEIGHTS,
      describe([frames, height, width, inChannels, channels]) {
        // Frame t sees min(t + 1, 3) frames; the zeros before the first are skipped.
        const taps = 9 * (frames === 1 ? 1 : 3 * frames! - 3);
        return {
          inputs: [
            [1, frames!, height!, width!, inChannels!],
            [channels!, 3, 3, 3, inChannels!],
          ],
          output: [1, frames!, height!, width!, channels!],
          flops: 2 * height! * width! * channels! * taps * inChannels!,
        };
      },
      build: (x, w) => causalConv3d(x!, w!, { padding: PADDING }),
    },
  },
};
