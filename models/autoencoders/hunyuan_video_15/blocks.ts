/**
 * The blocks of HunyuanVideo 1.5's autoencoder, [1, frames, height, width, channels].
 * Source: diffusers `autoencoder_kl_hunyuanvideo15.py`, whose module names are the weight names.
 */
import {
  copyTo,
  elementwise,
  gather,
  type Graph,
  slice,
  type Tensor,
  type WeightScope,
} from "../../../runtime/mod.ts";
import { wideAttention } from "../../blocks/layers.ts";
import { rearrange } from "../../rearrange.ts";
import { withEdges } from "../edges.ts";
import {
  type BlockLayers,
  groupMeans,
  norm,
  pointwiseConv,
  type Stream,
  streamedConv,
} from "../wan/blocks.ts";
import type { ChunkFrame } from "../wan/history.ts";

/** Below this a logit hides its key. */
const HIDDEN = -1e30;

/** Convolution of 3 x 3 x 3 that looks two frames back; the edges, and the first frame before a video, are repeated. */
export function edgeConv(
  stream: Stream,
  weights: WeightScope,
  name: string,
  x: Tensor,
  outChannels: number,
  residual?: Tensor,
): Tensor {
  const before = stream.place === "next" ? 0 : 2;
  const seen = withEdges(x, { before, after: 0, beyond: "repeat", name: "with edges" });
  const options = { frontPadding: 0, name, residual };
  return streamedConv(stream, weights.scope(name).scope("conv"), seen, outChannels, options);
}

/** Every place of a frame sees its own frame and those before it, whose keys and values stay on the device. */
function attentionBlock(stream: Stream, weights: WeightScope, x: Tensor): Tensor {
  const { graph } = x;
  const [, , height, width, channels] = x.shape as [number, number, number, number, number];
  const tokens = height * width;
  const normed = norm(weights.scope("norm"), x, 3).reshape(1, tokens, channels);
  const project = (name: string) => pointwiseConv(stream, weights, name, normed, channels);
  const [query, key, value] = [project("to_q"), project("to_k"), project("to_v")];
  const { chunk, place, history } = stream;
  const seen = (name: string, own: Tensor) => {
    if (!chunk || place === "only") return own;
    const shape = [chunk.frames, tokens, channels];
    const kept = history.tensor(`${weights.scope(name).path} seen`, shape);
    const at = tableRow(graph, chunk, "own frame", (frame, own) => Number(frame === own));
    const all = elementwise("kept + at * own", { kept: graph.use(kept), at, own });
    copyTo(all, kept);
    return place === "first" ? own : all.reshape(1, -1, channels);
  };
  const [keys, values] = [seen("to_k", key), seen("to_v", value)];
  const hidden = chunk && place === "next" ? laterKeys(graph, chunk, tokens) : undefined;
  const attended = wideAttention(query, keys, values, { hidden });
  const residual = x.reshape(...normed.shape);
  return pointwiseConv(stream, weights, "proj_out", attended, channels, residual)
    .reshape(...x.shape);
}

/** f32 [frames, 1, 1]: what `valueOf` gives for each frame and the chunk's own. */
function tableRow(
  graph: Graph,
  { frame, frames }: ChunkFrame,
  name: string,
  valueOf: (frame: number, own: number) => number,
): Tensor {
  const values = Float32Array.from(
    { length: frames * frames },
    (_, i) => valueOf(i % frames, Math.floor(i / frames)),
  );
  const table = graph.constant(name, [frames, frames], "f32", values);
  return gather(table, frame, { name }).reshape(frames, 1, 1);
}

/** [1, 1, keys]: what hides the keys of later frames. */
function laterKeys(graph: Graph, chunk: ChunkFrame, tokens: number): Tensor {
  const later = tableRow(
    graph,
    chunk,
    "later frames",
    (frame, own) => (frame > own ? HIDDEN : 0),
  );
  const none = graph.constant("a frame", [1, tokens], "f32", new Float32Array(tokens));
  return elementwise("h + z", { h: later.reshape(-1, 1), z: none }).reshape(1, 1, -1);
}

/** What differs from Wan's blocks. */
export const HUNYUAN_VIDEO_15_LAYERS: BlockLayers = { convolve: edgeConv, attend: attentionBlock };

/** Means of neighbouring channels, [..., channels]. */
export function channelMeans(x: Tensor, channels: number): Tensor {
  const group = x.dim(-1) / channels;
  if (group === 1) return x;
  return groupMeans(x, group, "channel means").reshape(...x.shape.slice(0, -1), channels);
}

/** y + x, whose channels are repeated to those of y, each beside its copies. */
export function addRepeated(y: Tensor, x: Tensor): Tensor {
  const [places, channels] = [x.size / x.dim(-1), x.dim(-1)];
  const [a, b] = [y.reshape(places, channels, -1), x.reshape(places, channels, 1)];
  return elementwise("a + b", { a, b }, { name: "shortcut" }).reshape(...y.shape);
}

/** Halves rows and columns, and with `temporal` pairs of frames; the first frame of a video has no other. */
export function downsample(
  stream: Stream,
  weights: WeightScope,
  x: Tensor,
  outChannels: number,
  temporal: boolean,
): Tensor {
  const sizes = { t: temporal && stream.place === "next" ? 2 : 1, i: 2, j: 2 };
  const folded = (x: Tensor) => rearrange(x, "1 (f t) (y i) (x j) c -> 1 f y x (t i j c)", sizes);
  const isAlone = temporal && stream.place !== "next";
  const h = folded(edgeConv(stream, weights, "conv", x, outChannels / (temporal ? 8 : 4)));
  const shortcut = channelMeans(folded(x), outChannels);
  if (!isAlone) return elementwise("a + b", { a: h, b: shortcut }, { name: "shortcut" });
  // What the other frame would give is what this one gives.
  const [a, b] = [h.reshape(-1, 1, outChannels / 2), shortcut.reshape(-1, 2, outChannels / 2)];
  return elementwise("a + b", { a, b }, { name: "shortcut" }).reshape(...shortcut.shape);
}

/** Doubles rows and columns, and with `temporal` frames, but for the first of a video. */
export function upsample(
  stream: Stream,
  weights: WeightScope,
  x: Tensor,
  outChannels: number,
  temporal: boolean,
): Tensor {
  const [, f, y] = x.shape as [number, number, number];
  const h = edgeConv(stream, weights, "conv", x, outChannels * (temporal ? 8 : 4));
  const isAlone = temporal && stream.place !== "next";
  const kept = isAlone ? slice(h.reshape(-1, 4, 2, outChannels), 2, 0, 1) : h;
  const wide = addRepeated(kept.reshape(...x.shape.slice(0, -1), -1), x);
  const sizes = { f, y, t: temporal && !isAlone ? 2 : 1, i: 2, j: 2 };
  return rearrange(wide, "1 f y x (t i j c) -> 1 (f t) (y i) (x j) c", sizes);
}
