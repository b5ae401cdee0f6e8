/**
 * RIFE's network: the frame in the middle, by a flow that is guessed coarsely first; [1, height, width, channels], in [0, 1].
 * Source: hzwer/Practical-RIFE, the `IFNet_HDv3` that comes with each model from 4.15 on.
 */
import { z } from "zod";
import {
  concat,
  conv2d,
  elementwise,
  type Graph,
  linear,
  resizeBilinear,
  slice,
  type Tensor,
  type TensorSource,
  warp,
  type WeightScope,
} from "../../runtime/mod.ts";
import { pixelShuffle } from "../autoencoders/tiny/decoder.ts";
import { convolutionLayer } from "../blocks/layers.ts";
import { rearrange } from "../rearrange.ts";
import { type ComponentFormat, countModules, shapeOf } from "../checkpoints/component_format.ts";

/** RIFE 4.15 and newer. */
export const FRAME_INTERPOLATOR_CONFIG = z.object({
  _class_name: z.literal("IFNet"),
  /** Channels of each block, from the coarsest; each sees twice the size of the one before. */
  block_channels: z.array(z.int().positive()).min(2).max(6),
  head_channels: z.int().positive(),
  /** Channels that each block hands to the next beside flow and mask; none before RIFE 4.22. */
  feature_channels: z.int().min(0),
});

export type FrameInterpolatorConfig = z.output<typeof FRAME_INTERPOLATOR_CONFIG>;

/** Of each block at its own scale. */
export const CONVOLUTIONS = 8;

const TIME = 0.5;

interface Guess {
  /** [1, height, width, 4]: to the first frame, right and down, then to the second. */
  readonly flow: Tensor;
  /** [1, height, width, 1]: how much of the first frame there is, before the sigmoid. */
  readonly mask: Tensor;
  /** What the next block is told; none before RIFE 4.22. */
  readonly features: Tensor | undefined;
}

function scalesOf(
  { block_channels: { length } }: FrameInterpolatorConfig,
  scale: number,
): number[] {
  return Array.from({ length }, (_, i) => 2 ** (length - 1 - i) / scale);
}

/** Pixels along a side for one position of the coarsest block, which halves its size twice and doubles it twice. */
export function frameUnit(config: FrameInterpolatorConfig, scale: number): number {
  return 4 * Math.max(...scalesOf(config, scale));
}

/**
 * The frame between, [1, height, width, 3], not clamped; a scale of 0.5 finds larger motion in large frames. Sides are
 * multiples of {@linkcode frameUnit}.
 */
export function middleFrame(
  graph: Graph,
  config: FrameInterpolatorConfig,
  weights: WeightScope,
  first: Tensor,
  second: Tensor,
  scale: number,
): Tensor {
  const scales = scalesOf(config, scale);
  const frames = [first, second];
  return graph.scope("frame interpolator", () => {
    const heads = frames.map((frame) => head(config, weights.scope("encode"), frame));
    // What is moved along: each frame beside what the head makes of it.
    const both = concat(frames.map((frame, i) => concat([frame, heads[i]!], -1)), 0);
    let guess: Guess | undefined;
    config.block_channels.forEach((channels, i) => {
      const moved = guess ? moveAlong(both, guess.flow) : both;
      const next = block(config, weights.scope(`block${i}`), channels, moved, guess, scales[i]!);
      guess = guess
        ? { ...next, flow: elementwise("a + b", { a: guess.flow, b: next.flow }) }
        : next;
    });
    const [a, b] = halves(moveAlong(concat(frames, 0), guess!.flow));
    // The sigmoid of m, as tanh has it.
    return elementwise("b + (a - b) * (0.5 + 0.5 * act_tanh(0.5 * m))", {
      a: a!,
      b: b!,
      m: guess!.mask,
    });
  });
}

function moveAlong(both: Tensor, flow: Tensor): Tensor {
  return warp(both, concat([slice(flow, -1, 0, 2), slice(flow, -1, 2, 4)], 0));
}

function block(
  config: FrameInterpolatorConfig,
  weights: WeightScope,
  channels: number,
  both: Tensor,
  guess: Guess | undefined,
  scale: number,
): Guess {
  const { graph } = both;
  const [, height, width] = both.shape as [number, number, number];
  const time = graph.constant("time", [1, 1, 1, 1], "f32", [TIME]);
  const times = elementwise("t + 0.0 * a", { t: time, a: slice(slice(both, 0, 0, 1), -1, 0, 1) });
  const seen = [
    ...halves(slice(both, -1, 0, 3)),
    ...halves(slice(both, -1, 3)),
    times,
    ...guess ? [guess.mask, ...guess.features ? [guess.features] : []] : [],
    ...guess ? [elementwise("a / scale", { a: guess.flow }, { scalars: { scale } })] : [],
  ];
  const small = resizeBilinear(concat(seen, -1), height / scale, width / scale);
  const first = weights.scope("conv0");
  let x = convolution(first, "0.0", small, channels / 2, 2);
  x = convolution(first, "1.0", x, channels, 2);
  for (let i = 0; i < CONVOLUTIONS; i++) {
    const own = weights.scope("convblock").scope(i);
    const h = convolution(own, "conv", x, channels, 1, "none");
    const beta = own.tensor(graph, "beta", [1, channels, 1, 1]).reshape(channels);
    x = elementwise("act_leaky_relu(h * beta + x)", { h, beta, x }, { name: "residual" });
  }
  const outputs = lastChannels(config);
  const y = pixelShuffle(upConvolution(weights.scope("lastconv"), "0", x, 4 * outputs), 2);
  const large = resizeBilinear(y, height, width);
  return {
    flow: elementwise("a * scale", { a: slice(large, -1, 0, 4) }, { scalars: { scale } }),
    mask: slice(large, -1, 4, 5),
    features: config.feature_channels > 0 ? slice(large, -1, 5) : undefined,
  };
}

function lastChannels({ feature_channels }: FrameInterpolatorConfig): number {
  return 5 + Math.max(1, feature_channels);
}

function head(
  { head_channels }: FrameInterpolatorConfig,
  weights: WeightScope,
  frame: Tensor,
): Tensor {
  const channels = 4 * head_channels;
  let x = convolution(weights, "cnn0", frame, channels, 2);
  for (const name of ["cnn1", "cnn2"]) x = convolution(weights, name, x, channels, 1);
  return upConvolution(weights, "cnn3", x, head_channels);
}

function convolution(
  weights: WeightScope,
  name: string,
  x: Tensor,
  outChannels: number,
  stride: 1 | 2,
  activation: "leaky_relu" | "none" = "leaky_relu",
): Tensor {
  return convolutionLayer(weights, name, x, outChannels, { stride: [stride, stride], activation });
}

/** Elements of a transposed kernel by [row, column, row of the neighbour, column of the neighbour, element]. */
const TAPS = upTaps();

function upTaps(): Float32Array {
  // Result row 2i + phase takes element k of input row i + offset - 1.
  const element = [[3, 1, undefined], [undefined, 2, 0]] as const;
  const taps = new Float32Array(36 * 16);
  let at = 0;
  for (const rows of element) {
    for (const columns of element) {
      for (const row of rows) {
        for (const column of columns) {
          if (row !== undefined && column !== undefined) taps[at + 4 * row + column] = 1;
          at += 16;
        }
      }
    }
  }
  return taps;
}

/** A transposed convolution of 4 x 4 that doubles the size, as one of 3 x 3 to four times the channels, then pixels. */
function upConvolution(weights: WeightScope, name: string, x: Tensor, outChannels: number): Tensor {
  const { graph } = x;
  const scope = weights.scope(name);
  const inChannels = x.dim(-1);
  const stored = scope.tensor(graph, "weight", [inChannels, outChannels, 4, 4]);
  const taps = graph.constant("taps", [36, 16], "f32", TAPS);
  const spread = linear(stored.reshape(inChannels * outChannels, 16), taps, { name: "spread" });
  const taken = spread.reshape(inChannels, outChannels * 4, 3, 3);
  const kernel = rearrange(taken, "c o y x -> o y x c");
  const y = pixelShuffle(conv2d(x, kernel, { padding: [1, 1, 1, 1], name }), 2);
  return elementwise("y + bias", { y, bias: scope.tensor(graph, "bias", [outChannels]) });
}

function halves(both: Tensor): Tensor[] {
  return [slice(both, 0, 0, 1), slice(both, 0, 1, 2)];
}

/** ComfyUI counts the blocks as modules of a list. */
function comfyNames(tensors: TensorSource): TensorSource {
  const theirs = (name: string) => name.replace(/^block(\d)/, "blocks.$1");
  return {
    path: tensors.path,
    names: [...tensors.names].map((name) => name.replace(/^blocks\.(\d)/, "block$1")),
    find: (name) => tensors.find(theirs(name)),
    read: (name, ...rest) => tensors.read(theirs(name), ...rest),
  };
}

/** RIFE 4.15 and newer, with or without `module` before the names: 4.22, 4.22.lite, 4.25 and others. */
export const RIFE_FORMAT: ComponentFormat = {
  name: "a frame interpolator (RIFE 4.15 or newer)",
  component: "frame_interpolator",
  className: "IFNet",
  namings: [
    { probes: ["block0.conv0.0.0.weight", "block1.lastconv.0.weight", "encode.cnn3.weight"] },
    {
      probes: ["blocks.0.conv0.0.0.weight", "blocks.1.lastconv.0.weight", "encode.cnn3.weight"],
      view: comfyNames,
    },
  ],
  config: (tensors) => {
    const blocks = countModules(tensors, "block");
    const head = shapeOf(tensors, "encode.cnn3.weight", 4)[1]!;
    // Two frames and their heads, the time, mask and flow; the rest is what the block before tells.
    const known = 6 + 2 * head + 1 + 1 + 4;
    return {
      _class_name: "IFNet",
      block_channels: Array.from(
        { length: blocks },
        (_, i) => shapeOf(tensors, `block${i}.conv0.1.0.weight`, 4)[0]!,
      ),
      head_channels: head,
      feature_channels: shapeOf(tensors, "block1.conv0.0.0.weight", 4)[1]! - known,
    };
  },
};
