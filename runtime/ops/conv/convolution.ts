import { isFloat } from "../../dtype.ts";
import type { Tensor } from "../../graph/graph.ts";
import { formatShape, sameShape } from "../../shape.ts";
import type { Activation } from "../activations.ts";
import { concat } from "../layout/mod.ts";
import { linear } from "../linear/mod.ts";
import { FEW_LARGE_TILES, matrixOrder, mayRoundToHalf } from "../matrix_unit.ts";
import { groupNorm, type GroupNormOptions, groupStatistics } from "../norm/group_norm.ts";
import { convClass } from "../problem_class.ts";
import { chooseVariant } from "../variants.ts";
import type { ConvProblem, ConvVariant } from "./problem.ts";
import { BROADCAST, BROADCAST_8, REGISTERS, WINOGRAD } from "./registers.ts";
import { MATRIX_VARIANTS, TILES_VARIANTS } from "./tiles.ts";

/** A convolution over frames, rows and columns with everything filled in; an image is one frame. */
interface ConvRequest {
  readonly op: "conv2d" | "causalConv3d";
  /** [B, T, H, W, Ci] */
  readonly x: Tensor;
  /** [Co, kt, kh, kw, Ci] */
  readonly weight: Tensor;
  readonly bias?: Tensor | undefined;
  /** [B, Tc, H, W, Ci]: frames before `x`. */
  readonly cache?: Tensor | undefined;
  readonly residual?: Tensor | undefined;
  /** Without a cache. */
  readonly norm?: GroupNormOptions | undefined;
  /** Frames, rows, columns. */
  readonly stride: readonly [number, number, number];
  /** Zeros around the input: top, bottom, left, right. */
  readonly padding: readonly [number, number, number, number];
  /** Frames of zeros before the cache; as many as make the first output depend on the first frame only. */
  readonly frontPadding?: number | undefined;
  readonly upsample: 1 | 2;
  readonly activation: Activation;
  readonly name: string;
}

/** Checks and traces a convolution; one that mixes channels only is a linear layer. */
export function convolution(request: ConvRequest): Tensor {
  const { op, x, weight, bias, residual, cache, stride, padding, activation, norm } = request;
  const [batch, frames, height, width, inChannels] = x.shape as Five;
  const [channels, kt, kh, kw, weightChannels] = weight.shape as Five;
  const fail = (reason: string): never => {
    throw new RangeError(`Cannot apply ${op} to ${x} with weight ${weight}: ${reason}`);
  };
  if (inChannels !== weightChannels) {
    fail(`the input has ${inChannels} channels, the weight takes ${weightChannels}`);
  }
  if (!isFloat(weight.dtype) || x.dtype !== "f32") {
    fail("the input must be f32, the weight a float");
  }
  if (!stride.every(isCount) || !padding.every((size) => Number.isInteger(size) && size >= 0)) {
    fail(`stride [${stride.join(", ")}] or padding [${padding.join(", ")}] is out of range`);
  }
  const cacheFrames = cache?.dim(1) ?? 0;
  if (cache && (cacheFrames >= kt || !sameShape(cache.shape, x.shape.with(1, cacheFrames)))) {
    fail(
      `the cache ${cache} must be ${
        formatShape(x.shape.with(1, Math.max(1, kt - 1)))
      } or have fewer frames`,
    );
  }
  const front = request.frontPadding ?? kt - 1 - cacheFrames;
  if (!Number.isInteger(front) || front < 0) fail(`${front} frames of padding are out of range`);
  const seenHeight = height * request.upsample;
  const seenWidth = width * request.upsample;
  const [top, bottom, left, right] = padding;
  const outFrames = outputSize(front + cacheFrames + frames, kt, stride[0]);
  const outHeight = outputSize(seenHeight + top + bottom, kh, stride[1]);
  const outWidth = outputSize(seenWidth + left + right, kw, stride[2]);
  if (outFrames < 1 || outHeight < 1 || outWidth < 1) fail("the padded input is smaller than it");
  const shape = [batch, outFrames, outHeight, outWidth, channels];
  if (bias && !sameShape(bias.shape, [channels])) fail(`the bias ${bias} must be [${channels}]`);
  if (residual && !sameShape(residual.shape, shape)) {
    fail(`the residual ${residual} must be ${formatShape(shape)}, as the result`);
  }

  const { graph } = x;
  const isPointwise = kt * kh * kw * request.upsample === 1 && front === 0 &&
    [...stride, ...padding.map((size) => size + 1)].every((size) => size === 1);
  if (isPointwise && graph.target.forcedVariants[op] === undefined) {
    return linear(norm ? groupNorm(x, norm) : x, weight.reshape(channels, inChannels), {
      activation,
      ...(bias && { bias }),
      ...(residual && { residual }),
      name: request.name,
    });
  }
  const given = [x, weight, cache, bias, residual].filter((tensor) => tensor !== undefined);
  // Besides them the result, and the counter of kernels that round.
  const bindings = graph.bindingsOf(given) + 2;
  const { maxStorageBuffers } = graph.target.limits;
  const problem = {
    inChannels,
    channels,
    height: outHeight,
    width: outWidth,
    frames: batch * outFrames,
    taps: kt * kh * kw,
    isUpsampled: request.upsample === 2,
    kernelWidth: kw,
    stride: stride[2],
    mayRound: mayRoundToHalf(op, graph, weight.name, weight.dtype) &&
      bindings <= maxStorageBuffers,
    takesNorm: norm !== undefined && bindings < maxStorageBuffers,
  };
  const problemClass = convClass({
    channels,
    pixels: outHeight * outWidth,
    isNormed: norm !== undefined,
  });
  const variant = chooseVariant(
    op,
    convByPreference(problem),
    problem,
    graph.target,
    problemClass,
  );
  const isJoined = cache !== undefined && !variant.takesCache;
  const isNormedBefore = norm !== undefined && !variant.normalizes;
  const normed = isNormedBefore ? groupNorm(x, norm) : x;
  const affine = norm && !isNormedBefore ? groupStatistics(x, norm) : undefined;
  const source = isJoined ? concat([cache, x], 1, { name: `${request.name} input` }) : normed;
  const ownCache = isJoined ? undefined : cache;
  const accessWidth = inChannels % 4 === 0 ? 4 : 1;
  const operands = {
    x: source,
    weight,
    ...(ownCache && { cache: ownCache }),
    ...(bias && { bias }),
    ...(residual && { residual }),
    ...(affine && { affine }),
  };
  const asks = variant.asks?.(problem) && graph.target.schedule === "cpu" &&
    graph.bindingsOf([source]) === 1 &&
    graph.bindingsOf(Object.values(operands)) + 2 <= graph.target.limits.maxStorageBuffers;
  const { kernel, workgroups } = variant.plan(
    {
      WIDTH: accessWidth,
      OUT_WIDTH: channels % 4 === 0 ? 4 : 1,
      ...(ownCache && { CACHE: true }),
      BIAS: bias !== undefined,
      RESIDUAL: asks || residual !== undefined,
      ...(asks && { ASKS: true }),
      ACTIVATION: activation,
      ...(affine && { NORM: true, NORM_ACTIVATION: norm?.activation ?? "none" }),
    },
    problem,
    graph.target,
  );
  const y = graph.tensor(request.name, shape);
  let usedFrames = 0;
  for (let t = 0; t < outFrames; t++) {
    usedFrames += Math.max(0, kt - Math.max(0, front - t * stride[0]));
  }
  graph.dispatch({
    kernel,
    // The input stands in for a residual: it is bound and not read.
    buffers: { ...(asks && { residual: source }), ...operands, y },
    params: {
      words: inChannels / accessWidth,
      channels,
      x_frames: source.dim(1),
      cache_frames: ownCache ? cacheFrames : 0,
      x_height: height,
      x_width: width,
      y_frames: outFrames,
      y_height: outHeight,
      y_width: outWidth,
      k_frames: kt,
      k_height: kh,
      k_width: kw,
      stride_t: stride[0],
      stride_h: stride[1],
      stride_w: stride[2],
      front,
      pad_top: top,
      pad_left: left,
      up_shift: request.upsample - 1,
      seen_height: seenHeight,
      seen_width: seenWidth,
      ...(asks && { has_residual: Number(residual !== undefined) }),
    },
    workgroups: [...workgroups, batch * outFrames],
    layer: weight.name,
    // What is normalised on its way is no factor as it is.
    factors: problem.mayRound ? [...(affine ? [] : ["x"]), "cache"] : undefined,
    flops: 2 * batch * usedFrames * outHeight * outWidth * channels * kh * kw * inChannels,
  });
  return y;
}

type Five = readonly [number, number, number, number, number];

function isCount(size: number): boolean {
  return Number.isInteger(size) && size >= 1;
}

function outputSize(padded: number, kernel: number, stride: number): number {
  return Math.floor((padded - kernel) / stride) + 1;
}

/**
 * Channels up to which normalising whatever a tile loads, again for each tap and 64 or 128 channels, takes less than a pass
 * over memory: by a model of cards, not measured.
 */
const MOST_NORMED = 256;

const SMALL_TILES_FIRST = [...TILES_VARIANTS.slice(2), ...TILES_VARIANTS.slice(0, 2)];

/** All ways to convolve; their order depends on the problem. */
export const CONV_VARIANTS: readonly ConvVariant[] = [
  WINOGRAD,
  BROADCAST,
  REGISTERS,
  ...MATRIX_VARIANTS,
  ...TILES_VARIANTS,
  BROADCAST_8,
];

/** The ways to convolve in the order of preference for a problem, within a class of adapters. */
export function convByPreference(problem: ConvProblem): readonly ConvVariant[] {
  const { channels, height, width, frames } = problem;
  const order = matrixOrder(height * width, channels, frames);
  const place = ({ name }: ConvVariant) => order.indexOf(name.replace(/-norm$/, ""));
  const matrix = MATRIX_VARIANTS.toSorted((a, b) => place(a) - place(b));
  const large = Math.ceil(height * width / 128) * Math.ceil(channels / 128) * frames;
  const tiles = large >= FEW_LARGE_TILES ? TILES_VARIANTS : SMALL_TILES_FIRST;
  const byNorm = channels <= MOST_NORMED
    ? tiles
    : tiles.toSorted((a, b) => Number(a.normalizes ?? false) - Number(b.normalizes ?? false));
  return [WINOGRAD, BROADCAST, REGISTERS, ...matrix, ...byNorm, BROADCAST_8];
}
