/**
 * The blocks of LTX-2's video autoencoder, [1, frames, height, width, channels].
 * Source: diffusers `autoencoder_kl_ltx2.py`.
 */
import {
  causalConv3d,
  concat,
  elementwise,
  gather,
  layerNorm,
  linear,
  rmsNorm,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { rearrange } from "../../rearrange.ts";
import { sharedConstant } from "./shared_constant.ts";
import type { DownLevel, UpLevel } from "./video_config.ts";

/** What convolutions see where there is nothing. */
export interface Surroundings {
  /** Whether frames see none that follow; else the last one is repeated. Before the first it is repeated either way. */
  readonly isCausal: boolean;
  /** Beyond the edges of a frame: zeros, or its mirror image. */
  readonly padding: "zeros" | "reflect";
}

type Five = [number, number, number, number, number];

/** Frames and pixels that a mirrored map is made of. */
function mirrorIndices(x: Tensor, isCausal: boolean): Tensor {
  const [, frames, height, width] = x.shape as Five;
  const mirrored = (place: number, size: number) =>
    place < 0 ? -place : place >= size ? 2 * (size - 1) - place : place;
  const before = isCausal ? 2 : 1;
  const shape = [frames + 2, height + 2, width + 2] as const;
  const key = `mirrored ${frames}x${height}x${width}${isCausal ? ", causal" : ""}`;
  return sharedConstant(x.graph, key, {
    shape,
    dtype: "u32",
    values: () => {
      const indices = new Uint32Array(shape[0] * shape[1] * shape[2]);
      let to = 0;
      for (let f = 0; f < shape[0]; f++) {
        const frame = Math.min(frames - 1, Math.max(0, f - before));
        for (let i = 0; i < shape[1]; i++) {
          const row = frame * height + mirrored(i - 1, height);
          for (let j = 0; j < shape[2]; j++) indices[to++] = row * width + mirrored(j - 1, width);
        }
      }
      return indices;
    },
  });
}

/** Convolution of 3 x 3 x 3 that keeps the size. */
export function convolve(
  { isCausal, padding }: Surroundings,
  weights: WeightScope,
  name: string,
  x: Tensor,
  outChannels: number,
  residual?: Tensor,
): Tensor {
  const { graph } = x;
  const [, frames, height, width, channels] = x.shape as Five;
  const scope = weights.scope(name).scope("conv");
  const weight = scope.tensor(
    graph,
    "weight",
    [outChannels, channels, 3, 3, 3],
    "channels-last",
  );
  const options = {
    bias: scope.tensor(graph, "bias", [outChannels]),
    frontPadding: 0,
    name,
    ...(residual ? { residual } : {}),
  };
  if (padding === "reflect") {
    if (height < 2 || width < 2) {
      throw new RangeError(
        `Cannot mirror the edges of ${height}x${width} latents: two along each side are needed; ask for a larger size`,
      );
    }
    const seen = gather(x.reshape(-1, channels), mirrorIndices(x, isCausal), {
      name: `${name} input`,
    });
    return causalConv3d(seen.reshape(1, ...seen.shape), weight, options);
  }
  const at = (frame: number) => slice(x, 1, frame, frame + 1);
  const first = at(0);
  const edges = { ...options, padding: [1, 1, 1, 1] as const };
  return isCausal
    ? causalConv3d(x, weight, { ...edges, cache: concat([first, first], 1) })
    : causalConv3d(concat([first, x, at(frames - 1)], 1), weight, edges);
}

/** x / sqrt(mean(x²) + 1e-8) over the channels, then SiLU. */
export function normSilu(x: Tensor): Tensor {
  return rmsNorm(x, { eps: 1e-8, activation: "silu", name: "norm" });
}

export function residualBlock(
  around: Surroundings,
  weights: WeightScope,
  x: Tensor,
  outChannels: number,
  eps: number,
): Tensor {
  const { graph } = x;
  const channels = x.dim(-1);
  let shortcut = x;
  if (channels !== outChannels) {
    const norm = weights.scope("norm3");
    const normed = layerNorm(x, {
      eps,
      weight: norm.tensor(graph, "weight", [channels]),
      bias: norm.tensor(graph, "bias", [channels]),
    });
    const scope = weights.scope("conv_shortcut");
    const weight = scope.tensor(graph, "weight", [outChannels, channels, 1, 1, 1]);
    shortcut = linear(normed, weight.reshape(outChannels, channels), {
      bias: scope.tensor(graph, "bias", [outChannels]),
      name: "conv_shortcut",
    });
  }
  const h = convolve(around, weights, "conv1", normSilu(x), outChannels);
  return convolve(around, weights, "conv2", normSilu(h), outChannels, shortcut);
}

export function residualBlocks(
  around: Surroundings,
  weights: WeightScope,
  x: Tensor,
  count: number,
  eps: number,
): Tensor {
  let h = x;
  for (let i = 0; i < count; i++) {
    h = x.graph.scope(
      `resnets.${i}`,
      () => residualBlock(around, weights.scope("resnets").scope(i), h, h.dim(-1), eps),
    );
  }
  return h;
}

/** Blocks of frames, rows and columns become channels, beside the means of neighbouring ones as a shortcut. */
export function downsample(
  around: Surroundings,
  weights: WeightScope,
  x: Tensor,
  { channels, stride }: Pick<DownLevel, "channels"> & { readonly stride: readonly number[] },
): Tensor {
  const [t, i, j] = stride as [number, number, number];
  const cells = t * i * j;
  const first = t > 1 ? [slice(x, 1, 0, t - 1)] : [];
  const padded = concat([...first, x], 1);
  const fold = (y: Tensor) =>
    rearrange(y, "1 (f t) (y i) (x j) c -> 1 f y x (c t i j)", { t, i, j });
  const folded = fold(padded);
  const group = folded.dim(-1) / channels;
  const mean = x.graph.constant("mean", [1, group], "f32", new Float32Array(group).fill(1 / group));
  const residual = linear(folded.reshape(-1, group), mean, { name: "shortcut" });
  const y = fold(convolve(around, weights, "conv", padded, channels / cells));
  return elementwise("a + b", { a: y, b: residual.reshape(...y.shape) }, { name: "downsample" });
}

/** Channels become blocks of frames, rows and columns; the first frame becomes one. */
export function upsample(
  around: Surroundings,
  weights: WeightScope,
  x: Tensor,
  { stride, factor, isResidual }: Omit<UpLevel, "stride"> & { readonly stride: readonly number[] },
): Tensor {
  const [t, i, j] = stride as [number, number, number];
  const cells = t * i * j;
  const unfold = (y: Tensor) => {
    const all = rearrange(y, "1 f y x (c t i j) -> 1 (f t) (y i) (x j) c", { t, i, j });
    return t > 1 ? slice(all, 1, t - 1) : all;
  };
  const y = unfold(convolve(around, weights, "conv", x, x.dim(-1) * cells / factor));
  if (!isResidual) return y;
  const own = unfold(x);
  const repeats = y.dim(-1) / own.dim(-1);
  const b = own.reshape(-1, 1, own.dim(-1));
  const a = y.reshape(-1, repeats, own.dim(-1));
  return elementwise("a + b", { a, b }, { name: "upsample" }).reshape(...y.shape);
}

/** Folds pixel patches into channels, in the order (channel, column, row). */
export function foldPatches(x: Tensor, size: number): Tensor {
  return rearrange(x, "1 f (y i) (x j) c -> 1 f y x (c j i)", { i: size, j: size });
}

export function unfoldPatches(x: Tensor, size: number): Tensor {
  return rearrange(x, "1 f y x (c j i) -> 1 f (y i) (x j) c", { i: size, j: size });
}
