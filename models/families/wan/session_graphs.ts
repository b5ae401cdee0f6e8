/** The programs of a session, one function each. */
import {
  combineTo,
  concat,
  copyTo,
  elementwise,
  gather,
  Graph,
  permute,
  Resident,
  slice,
  type Target,
  type Tensor,
} from "../../../runtime/mod.ts";
import type { Stream } from "../../autoencoders/wan/blocks.ts";
import type { WanVaeConfig } from "../../autoencoders/wan/config.ts";
import { wanDecoder } from "../../autoencoders/wan/decoder.ts";
import { wanEncoder } from "../../autoencoders/wan/encoder.ts";
import { type ChunkPlace, FrameHistory } from "../../autoencoders/wan/history.ts";
import type { Schedule } from "../../schedulers/mod.ts";
import { umt5Encoder } from "../../text_encoders/umt5.ts";
import type { WanComponents } from "./components.ts";
import { timestepRows } from "./modulation.ts";
import { patchify, tokenCount, type TokenGrid, unpatchify } from "./patches.ts";
import { promptsPerPass, type SessionShape, type SessionTensors } from "./session_tensors.ts";
import { wanContextStates, wanTransformer } from "./transformer.ts";

/** Keys and values of one block's cross-attention, for the prompts of one pass. */
export interface ContextResidents {
  readonly key: Resident;
  readonly value: Resident;
}

/** Decoding of a clip: one program for the first latent frame, and one for each of the later ones. */
export function traceDecode(
  { vae }: WanComponents,
  { latentFrames }: SessionShape,
  tensors: SessionTensors,
  history: FrameHistory,
  target: Target,
): Record<string, Graph> {
  const { frameLatents, frameIndex, firstPixels, nextPixels } = tensors;
  const trace = (name: string, place: ChunkPlace, pixels: Resident) => {
    const graph = new Graph(name, target);
    const stream = { place, history };
    const frames = graph.use(frameLatents);
    const [count, height, width, channels] = frames.shape as [number, number, number, number];
    const frame = place === "next"
      ? gather(frames.reshape(count, -1), graph.use(frameIndex))
      : slice(frames, 0, 0, 1);
    const latent = frame.reshape(1, 1, height, width, channels);
    copyTo(wanDecoder(graph, vae.config, vae.weights.root, latent, stream), pixels);
    return graph;
  };
  if (latentFrames === 1) return { decodeFirst: trace("decodeFirst", "only", firstPixels) };
  return {
    decodeFirst: trace("decodeFirst", "first", firstPixels),
    decodeNext: trace("decodeNext", "next", nextPixels),
  };
}

/**
 * One latent frame of an unfinished sample as it would be without its noise, x0 = x − σ·v, decoded by itself: the
 * first, or the one after a given first frame.
 */
export function tracePreview(
  { transformer, vae }: WanComponents,
  grid: TokenGrid,
  shape: SessionShape,
  tensors: SessionTensors,
  outputs: (graph: Graph) => readonly Tensor[],
  target: Target,
): Graph {
  const graph = new Graph("preview", target);
  const frame = shape.source === "picture" && shape.latentFrames > 1 ? 1 : 0;
  const count = tokenCount({ ...grid, frames: 1 });
  const parts = [graph.use(tensors.sample), ...outputs(graph)]
    .map((x) => slice(x, 1, frame * count, (frame + 1) * count));
  combineTo(parts, graph.use(tensors.previewWeights), 0, tensors.preview);
  const latent = elementwise("x * spread + center", {
    x: unpatchify(transformer.config, graph.use(tensors.preview), { ...grid, frames: 1 }),
    ...latentScale(graph, vae.config),
  });
  const stream = { place: "only" as const, history: new FrameHistory() };
  copyTo(wanDecoder(graph, vae.config, vae.weights.root, latent, stream), tensors.firstPixels);
  return graph;
}

/** The latent frame of a given first frame, as patches. */
export function tracePicture(
  { transformer, vae }: WanComponents,
  { picture, firstFrame }: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("encode", target);
  const stream = { place: "only" as const, history: new FrameHistory() };
  const latent = encodedLatent(graph, vae, graph.use(picture), stream);
  copyTo(patchify(transformer.config, channelsFirst(latent)), firstFrame);
  return graph;
}

/** Encoding of a clip, chunk by chunk; each writes its own latent frame. */
export function traceClip(
  { vae }: WanComponents,
  { latentFrames }: SessionShape,
  { picture, chunk, frameMask, frameLatents }: SessionTensors,
  history: FrameHistory,
  target: Target,
): Record<string, Graph> {
  const trace = (name: string, place: ChunkPlace, pixels: Resident) => {
    const graph = new Graph(name, target);
    const x = encodedLatent(graph, vae, graph.use(pixels), { place, history });
    const frames = graph.use(frameLatents);
    const mask = graph.use(frameMask);
    const parts = { frames, x: x.reshape(...x.shape.slice(1)), mask };
    copyTo(elementwise("(1.0 - mask) * frames + mask * x", parts), frameLatents);
    return graph;
  };
  if (latentFrames === 1) return { encodeFirst: trace("encodeFirst", "only", picture) };
  return {
    encodeFirst: trace("encodeFirst", "first", picture),
    encodeNext: trace("encodeNext", "next", chunk),
  };
}

/** The mean of what the encoder gives for a chunk, normalised: [1, 1, height, width, channels]. */
function encodedLatent(
  graph: Graph,
  { config, weights }: WanComponents["vae"],
  frames: Tensor,
  stream: Stream,
): Tensor {
  const moments = wanEncoder(graph, config, weights.root, frames, stream);
  return elementwise("(m - center) / spread", {
    m: slice(moments, -1, 0, config.z_dim),
    ...latentScale(graph, config),
  });
}

/** [1, frames, height, width, channels] as [1, channels, frames, height, width]. */
function channelsFirst(latents: Tensor): Tensor {
  return permute(latents, [0, 4, 1, 2, 3]);
}

/** Mean and standard deviation of the latents, per channel. */
function latentScale(
  graph: Graph,
  { z_dim, latents_mean, latents_std }: WanVaeConfig,
): { center: Tensor; spread: Tensor } {
  return {
    center: graph.constant("latents mean", [z_dim], "f32", latents_mean),
    spread: graph.constant("latents std", [z_dim], "f32", latents_std),
  };
}

/** What is the same for all steps: noise as patches, a given clip under it, timesteps as the blocks take them. */
export function traceBegin(
  { transformer }: WanComponents,
  shape: SessionShape,
  schedule: Schedule,
  tensors: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("begin", target);
  const { config, weights } = transformer;
  const noise = patchify(config, graph.use(tensors.latents));
  if (shape.source === "clip") {
    const level = schedule.sigmas[0]!;
    const sigma = graph.constant("noise level", [1], "f32", [level]);
    const clip = graph.use(tensors.frameLatents);
    const x = patchify(config, channelsFirst(clip.reshape(1, ...clip.shape)));
    copyTo(elementwise("(1.0 - sigma) * x + sigma * noise", { x, noise, sigma }), tensors.sample);
  } else copyTo(noise, tensors.sample);
  const embeddings = graph.use(tensors.timestepEmbeddings);
  const dim = tensors.timesteps.shape[1]!;
  copyTo(timestepRows(weights.root, embeddings, dim), tensors.timesteps);
  return graph;
}

/** The sample as latents, for the caller and for the decoder. */
export function traceFinish(
  { transformer, vae }: WanComponents,
  grid: TokenGrid,
  shape: SessionShape,
  tensors: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("finish", target);
  const tokens = withFirstFrame(graph, shape, tensors);
  const latents = unpatchify(transformer.config, tokens, grid);
  copyTo(channelsFirst(latents), tensors.latents);
  copyTo(
    elementwise("x * spread + center", { x: latents, ...latentScale(graph, vae.config) }),
    tensors.frameLatents,
  );
  return graph;
}

/** The text encoder. */
export function traceText(
  { textEncoder: { config, weights } }: WanComponents,
  { embeddings, lengths, mask, text }: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("text", target);
  const states = umt5Encoder(graph, config, weights.root, {
    embeddings: graph.use(embeddings),
    lengths: graph.use(lengths),
  });
  const parts = { h: states, mask: graph.use(mask) };
  copyTo(elementwise("h * mask", parts, { name: "text" }), text);
  return graph;
}

/** Everything of the transformer that only the prompt decides. */
export function traceContext(
  { transformer }: WanComponents,
  shape: SessionShape,
  tensors: SessionTensors,
  context: ContextResidents[],
  target: Target,
): Graph {
  const graph = new Graph("context", target);
  const text = graph.use(tensors.text);
  const blocks = wanContextStates(graph, transformer.config, transformer.weights.root, text);
  promptsPerPass(shape).forEach((prompts, pass) => {
    blocks.forEach(({ key, value }, i) => {
      const part = (x: Tensor) => (x.dim(0) === prompts ? x : slice(x, 0, pass, pass + 1));
      const residents = {
        key: new Resident(`context ${pass}.${i}.key`, part(key).shape),
        value: new Resident(`context ${pass}.${i}.value`, part(value).shape),
      };
      copyTo(part(key), residents.key);
      copyTo(part(value), residents.value);
      context.push(residents);
    });
  });
  return graph;
}

/** One graph per pass. */
export function traceDenoise(
  { transformer }: WanComponents,
  grid: TokenGrid,
  shape: SessionShape,
  tensors: SessionTensors,
  context: readonly ContextResidents[],
  target: Target,
): Record<string, Graph> {
  const { config, weights } = transformer;
  const graphs: Record<string, Graph> = {};
  const { operands = target.operands } = shape;
  tensors.velocities.forEach((velocity, pass) => {
    const graph = new Graph(`denoise${pass}`, { ...target, operands });
    graphs[graph.name] = graph;
    const blocks = context.slice(pass * config.num_layers, (pass + 1) * config.num_layers);
    const result = wanTransformer(graph, config, weights.root, {
      tokens: withFirstFrame(graph, shape, tensors),
      grid,
      timesteps: graph.use(tensors.timesteps),
      modulationIndices: graph.use(tensors.modulationIndices),
      ...(shape.source === "picture" && { tokenTimesteps: tokenTimesteps(graph, grid) }),
      context: {
        blocks: blocks.map(({ key, value }) => ({ key: graph.use(key), value: graph.use(value) })),
        lengths: graph.use(tensors.contextLengths[pass]!),
        padLogit: graph.use(tensors.padLogits[pass]!),
      },
    });
    copyTo(result, velocity);
  });
  return graphs;
}

/** The sample, with the given first frame in its place. */
function withFirstFrame(graph: Graph, shape: SessionShape, tensors: SessionTensors): Tensor {
  const sample = graph.use(tensors.sample);
  if (shape.source !== "picture") return sample;
  const first = graph.use(tensors.firstFrame);
  const rest = shape.latentFrames > 1 ? [slice(sample, 1, first.dim(1), sample.dim(1))] : [];
  return concat([first, ...rest], 1);
}

/** Which timestep of a step each token has: those of a given first frame the first, 0. */
function tokenTimesteps(graph: Graph, grid: TokenGrid): Tensor {
  const given = tokenCount({ ...grid, frames: 1 });
  const rows = Uint32Array.from({ length: tokenCount(grid) }, (_, i) => (i < given ? 0 : 1));
  return graph.constant("token timesteps", [rows.length], "u32", rows);
}
