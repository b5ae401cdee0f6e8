/**
 * The blocks of Wan's autoencoder, [1, frames, height, width, channels].
 * Source: diffusers `autoencoder_kl_wan.py`; for images alone `autoencoder_kl_qwenimage21.py`.
 */
import {
  type CausalConv3dOptions,
  concat,
  elementwise,
  linear,
  permute,
  rmsNorm,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { convolutionLayer, wideAttention } from "../../blocks/layers.ts";
import { rearrange } from "../../rearrange.ts";
import type { ChunkFrame, ChunkPlace, FrameHistory } from "./history.ts";

export interface Stream {
  readonly place: ChunkPlace;
  readonly history: FrameHistory;
  /** For autoencoders that see frames before the last ones; nothing of an image. */
  readonly chunk?: ChunkFrame | undefined;
  /** Whether the autoencoder knows images alone: its kernels have no time. */
  readonly isFlat?: boolean;
}

/** Convolution of 3 x 3 x 3 that looks two frames back, or of 3 x 3. */
export function causalConv(
  stream: Stream,
  weights: WeightScope,
  name: string,
  x: Tensor,
  outChannels: number,
  residual?: Tensor,
): Tensor {
  if (stream.isFlat) {
    const [image, before] = [x, residual].map((y) => y?.reshape(...y.shape.slice(1)));
    const y = convolutionLayer(weights, name, image!, outChannels, { residual: before });
    return y.reshape(1, ...y.shape);
  }
  const options = { padding: [1, 1, 1, 1] as const, name, residual };
  return streamedConv(stream, weights.scope(name), x, outChannels, options);
}

/** Convolution of 3 x 3 x 3 that remembers two frames. */
export function streamedConv(
  { place, history }: Stream,
  weights: WeightScope,
  x: Tensor,
  outChannels: number,
  options: Omit<CausalConv3dOptions, "bias" | "cache">,
): Tensor {
  const shape = [outChannels, x.dim(-1), 3, 3, 3];
  const weight = weights.tensor(x.graph, "weight", shape, "channels-last");
  const bias = weights.tensor(x.graph, "bias", [outChannels]);
  return history.convolve(place, weights.path, 2, x, weight, { bias, ...options });
}

export function pointwiseConv(
  { isFlat }: Pick<Stream, "isFlat">,
  weights: WeightScope,
  name: string,
  x: Tensor,
  outChannels: number,
  residual?: Tensor,
): Tensor {
  const scope = weights.scope(name);
  const inChannels = x.dim(-1);
  const kernel = isFlat ? [1, 1] : [1, 1, 1];
  const weight = scope.tensor(x.graph, "weight", [outChannels, inChannels, ...kernel]).reshape(
    outChannels,
    inChannels,
  );
  const bias = scope.tensor(x.graph, "bias", [outChannels]);
  return linear(x, weight, { bias, name, ...(residual ? { residual } : {}) });
}

const NORM = { eps: 1e-12, kind: "l2" } as const;

/** x / max(‖x‖₂, 1e-12) · √C · gamma over the channels, whose weights have so many further `axes`. */
export function norm(weights: WeightScope, x: Tensor, axes: 2 | 3): Tensor {
  return rmsNorm(x, { weight: gammaOf(weights, x, axes), ...NORM });
}

/** The norm of a residual block, then SiLU. */
export function normSilu(weights: WeightScope, name: string, x: Tensor): Tensor {
  const weight = gammaOf(weights.scope(name), x, 3);
  return rmsNorm(x, { weight, ...NORM, activation: "silu", name });
}

function gammaOf(weights: WeightScope, x: Tensor, axes: 2 | 3): Tensor {
  const channels = x.dim(-1);
  const shape = [channels, ...new Array<number>(axes).fill(1)];
  return weights.tensor(x.graph, "gamma", shape).reshape(channels);
}

/** What differs in autoencoders whose blocks are like Wan's. */
export interface BlockLayers {
  readonly convolve: typeof causalConv;
  attend(stream: Stream, weights: WeightScope, x: Tensor): Tensor;
}

const WAN_LAYERS: BlockLayers = {
  convolve: causalConv,
  attend: (_, weights, x) => attentionBlock(weights, x),
};

export function residualBlock(
  stream: Stream,
  weights: WeightScope,
  x: Tensor,
  outChannels: number,
  { convolve }: BlockLayers = WAN_LAYERS,
): Tensor {
  const shortcut = x.dim(-1) === outChannels
    ? x
    : pointwiseConv(stream, weights, "conv_shortcut", x, outChannels);
  const h = convolve(stream, weights, "conv1", normSilu(weights, "norm1", x), outChannels);
  return convolve(stream, weights, "conv2", normSilu(weights, "norm2", h), outChannels, shortcut);
}

export function residualBlocks(
  stream: Stream,
  weights: WeightScope,
  x: Tensor,
  outChannels: number,
  count: number,
  layers?: BlockLayers,
): Tensor {
  let h = x;
  for (let i = 0; i < count; i++) {
    const scope = weights.scope("resnets").scope(i);
    h = x.graph.scope(`resnets.${i}`, () => residualBlock(stream, scope, h, outChannels, layers));
  }
  return h;
}

/** Its kernels have no time: it sees one frame. */
export function attentionBlock(weights: WeightScope, x: Tensor): Tensor {
  const [, frames, height, width, channels] = x.shape as [number, number, number, number, number];
  const normed = norm(weights.scope("norm"), x, 2).reshape(frames, height * width, channels);
  const project = (name: string, input: Tensor, outChannels: number, residual?: Tensor) =>
    pointwiseConv({ isFlat: true }, weights, name, input, outChannels, residual);
  const qkv = project("to_qkv", normed, 3 * channels);
  const [query, key, value] = [0, 1, 2].map((i) =>
    slice(qkv, -1, i * channels, (i + 1) * channels)
  );
  const attended = wideAttention(query!, key!, value!);
  return project("proj", attended, channels, x.reshape(...normed.shape)).reshape(...x.shape);
}

export function midBlock(
  stream: Stream,
  weights: WeightScope,
  x: Tensor,
  layers: BlockLayers = WAN_LAYERS,
): Tensor {
  const { graph } = x;
  const resnet = (i: number, input: Tensor) =>
    graph.scope(
      `resnets.${i}`,
      () => residualBlock(stream, weights.scope("resnets").scope(i), input, input.dim(-1), layers),
    );
  const attended = graph.scope(
    "attentions.0",
    () => layers.attend(stream, weights.scope("attentions").scope(0), resnet(0, x)),
  );
  return resnet(1, attended);
}

export function downsample(
  stream: Stream,
  weights: WeightScope,
  x: Tensor,
  temporal: boolean,
): Tensor {
  const { graph } = x;
  const [, frames, height, width, channels] = x.shape as [number, number, number, number, number];
  const images = x.reshape(frames, height, width, channels);
  const halved = convolutionLayer(weights.scope("resample"), 1, images, channels, {
    stride: [2, 2],
    padding: [0, 1, 0, 1],
    name: "downsample",
  });
  const y = halved.reshape(1, ...halved.shape);
  if (!temporal) return y;
  const time = weights.scope("time_conv");
  if (stream.place !== "next") {
    stream.history.remember(stream.place, time.path, 1, y);
    return y;
  }
  const weight = time.tensor(graph, "weight", [channels, channels, 3, 1, 1], "channels-last");
  const bias = time.tensor(graph, "bias", [channels]);
  return stream.history.convolve("next", time.path, 1, y, weight, {
    bias,
    stride: [2, 1, 1],
    frontPadding: 0,
    name: "time_conv",
  });
}

/** Doubles height and width, and the frames too when `temporal` (but for the first frame of a video). */
export function upsample(
  stream: Stream,
  weights: WeightScope,
  x: Tensor,
  outChannels: number,
  temporal: boolean,
): Tensor {
  const doubled = temporal ? doubleFrames(stream, weights.scope("time_conv"), x) : x;
  const images = doubled.reshape(...doubled.shape.slice(1));
  const y = convolutionLayer(weights.scope("resample"), 1, images, outChannels, {
    upsample: 2,
    name: "upsample",
  });
  return y.reshape(1, ...y.shape);
}

function doubleFrames(stream: Stream, time: WeightScope, x: Tensor): Tensor {
  const { graph } = x;
  if (stream.place !== "next") {
    // The first frame is not doubled, and the convolution starts after it with an empty history.
    stream.history.reserve(stream.place, time.path, 2, x);
    return x;
  }
  const channels = x.dim(-1);
  const weight = time.tensor(graph, "weight", [2 * channels, channels, 3, 1, 1], "channels-last");
  const bias = time.tensor(graph, "bias", [2 * channels]);
  const wide = stream.history.convolve("next", time.path, 2, x, weight, {
    bias,
    name: "time_conv",
  });
  return rearrange(wide, "1 f y x (n c) -> 1 (f n) y x c", { n: 2 });
}

/** Parameter-free shortcut of a Wan 2.2 encoder level: space-time patches into channels, then group means. */
export function averageDown(
  x: Tensor,
  outChannels: number,
  temporal: boolean,
  spatial: boolean,
): Tensor {
  const ft = temporal ? 2 : 1;
  const fs = spatial ? 2 : 1;
  const padded = x.dim(1) % ft === 0
    ? x
    : concat([elementwise("0.0 * a", { a: slice(x, 1, 0, 1) }), x], 1);
  const [, frames, height, width, channels] = padded.shape as [
    number,
    number,
    number,
    number,
    number,
  ];
  const shape = [1, frames / ft, height / fs, width / fs, outChannels];
  const group = channels * ft * fs * fs / outChannels;
  if (group === 1 && ft === 1 && fs === 1) return padded;
  const folded = permute(
    padded.reshape(frames / ft, ft, height / fs, fs, width / fs, fs, channels),
    [0, 2, 4, 6, 1, 3, 5],
  );
  return groupMeans(folded, group, "average_down").reshape(...shape);
}

/** The mean of every `group` neighbouring channels, [means, 1]. */
export function groupMeans(x: Tensor, group: number, name: string): Tensor {
  const mean = x.graph.constant("mean", [1, group], "f32", new Float32Array(group).fill(1 / group));
  return linear(x.reshape(-1, group), mean, { name });
}

/** The parameter-free shortcut of a Wan 2.2 decoder level: channels of `x`, repeated, unfolded into space and time. */
export function addDuplicateUp(y: Tensor, x: Tensor, temporal: boolean, place: ChunkPlace): Tensor {
  const ft = temporal ? 2 : 1;
  const outChannels = y.dim(-1);
  const [, frames, height, width, channels] = x.shape as [number, number, number, number, number];
  // One pixel becomes a block of `cells`; neighbouring cells share a channel of the input, as far as repeats divide.
  const cells = 4 * ft;
  const repeats = outChannels * cells / channels;
  if (!Number.isInteger(repeats)) {
    throw new RangeError(
      `Cannot add a shortcut from ${x} to ${y}: ${channels} channels do not repeat to ${outChannels} of ${cells} places`,
    );
  }
  let shared = cells;
  while (repeats % shared !== 0) shared /= 2;
  const copies = concat(new Array<Tensor>(repeats / shared).fill(x.reshape(-1, 1)), 1);
  const distinct = cells / shared;
  const times = Math.min(distinct, ft);
  const rows = Math.min(distinct / times, 2);
  const columns = distinct / times / rows;
  const unfolded = permute(
    copies.reshape(frames, height, width, outChannels, times, rows, columns),
    [0, 4, 1, 5, 2, 6, 3],
  );
  // The first frame of a video is not doubled: it is the later one of its pair.
  const b = place === "next" ? unfolded : slice(unfolded, 1, times - 1, times);
  const a = y.reshape(frames, y.dim(1) / frames, height, 2, width, 2, outChannels);
  return elementwise("a + b", { a, b }, { name: "shortcut" }).reshape(...y.shape);
}

export function add(a: Tensor, b: Tensor): Tensor {
  return elementwise("a + b", { a, b }, { name: "shortcut" });
}

/** Folds pixel patches into channels, in the order (channel, column, row). */
export function foldPatches(x: Tensor, size: number): Tensor {
  return rearrange(x, "1 f (y i) (x j) c -> 1 f y x (c j i)", { i: size, j: size });
}

export function unfoldPatches(x: Tensor, size: number): Tensor {
  return rearrange(x, "1 f y x (c j i) -> 1 f (y i) (x j) c", { i: size, j: size });
}
