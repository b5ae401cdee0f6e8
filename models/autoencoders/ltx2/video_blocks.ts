/**
 * The blocks of LTX-2's video autoencoder, [1, frames, height, width, channels].
 * Source: diffusers `autoencoder_kl_ltx2.py`.
 */
import {
  causalConv3d,
  concat,
  elementwise,
  layerNorm,
  rmsNorm,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { rearrange } from "../../rearrange.ts";
import { withEdges } from "../edges.ts";
import { groupMeans, pointwiseConv } from "../wan/blocks.ts";
import type { FrameMemory, PiecePlace } from "./frame_memory.ts";
import type { DownLevel, UpLevel } from "./video_config.ts";

/** What convolutions see where there is nothing. */
export interface Surroundings {
  /** Whether frames see none that follow; else the last one is repeated. Before the first it is repeated either way. */
  readonly isCausal: boolean;
  /** Beyond the edges of a frame: zeros, or its mirror image. */
  readonly padding: "zeros" | "reflect";
  /** Where a piece of a video stands, and what is remembered from one to the next; all of it by default. */
  readonly place?: PiecePlace;
  readonly memory?: FrameMemory;
}

type Five = [number, number, number, number, number];

/** Convolution of 3 x 3 x 3 that keeps the size; of a piece that is not the last it lacks the frames that see the next piece. */
export function convolve(
  { isCausal, padding, place = "only", memory }: Surroundings,
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
  const before = place === "only" || place === "first" ? isCausal ? 2 : 1 : 0;
  const after = !isCausal && (place === "only" || place === "last") ? 1 : 0;
  const options = {
    bias: scope.tensor(graph, "bias", [outChannels]),
    frontPadding: 0,
    name,
    ...(residual ? { residual } : {}),
  };
  const kept = memory?.recall(place, scope.path, graph);
  if (padding === "reflect") {
    if (height < 2 || width < 2) {
      throw new RangeError(
        `Cannot mirror the edges of ${height}x${width} latents: two along each side are needed; ask for a larger size`,
      );
    }
    const seen = withEdges(x, { before, after, beyond: "reflect", name: `${name} input` });
    const y = causalConv3d(seen, weight, { ...options, ...(kept && { cache: kept }) });
    memory?.remember(place, scope.path, 2, seen);
    return y;
  }
  const still = (frame: number, count: number) =>
    new Array<Tensor>(count).fill(slice(x, 1, frame, frame + 1));
  const seen = concat([x, ...still(frames - 1, after)], 1);
  const cache = kept ?? concat(still(0, before), 1);
  const y = causalConv3d(seen, weight, { ...options, padding: [1, 1, 1, 1], cache });
  memory?.remember(place, scope.path, 2, seen);
  return y;
}

/** Frames beside those that so many convolutions have given. */
function beside(
  { isCausal, place = "only", memory }: Surroundings,
  key: string,
  convolutions: number,
  x: Tensor,
): Tensor {
  return memory?.delayed(place, key, isCausal ? 0 : convolutions, x) ?? x;
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
    shortcut = pointwiseConv({}, weights, "conv_shortcut", normed, outChannels);
  }
  const h = convolve(around, weights, "conv1", normSilu(x), outChannels);
  const own = beside(around, `${weights.path} shortcut`, 2, shortcut);
  return convolve(around, weights, "conv2", normSilu(h), outChannels, own);
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
  const residual = groupMeans(folded, folded.dim(-1) / channels, "shortcut");
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
    const isBeginning = around.place !== "next" && around.place !== "last";
    return t > 1 && isBeginning ? slice(all, 1, t - 1) : all;
  };
  const y = unfold(convolve(around, weights, "conv", x, x.dim(-1) * cells / factor));
  if (!isResidual) return y;
  const own = unfold(beside(around, `${weights.path} shortcut`, 1, x));
  const repeats = y.dim(-1) / own.dim(-1);
  const b = own.reshape(-1, 1, own.dim(-1));
  const a = y.reshape(-1, repeats, own.dim(-1));
  return elementwise("a + b", { a, b }, { name: "upsample" }).reshape(...y.shape);
}
