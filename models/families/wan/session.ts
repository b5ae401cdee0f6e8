/**
 * The programs of a Wan pipeline for one size, number of frames and kind of guidance, with the tensors they share.
 * Kept between requests of the same kind: a second picture of a size traces, compiles and allocates nothing.
 */
import {
  concat,
  copyTo,
  type Device,
  elementwise,
  gather,
  Graph,
  instantiate,
  type MemoryPlan,
  permute,
  planMemory,
  type ProgramSet,
  Resident,
  type RunControl,
  slice,
  type Target,
  type Tensor,
} from "../../../runtime/mod.ts";
import type { WanVaeConfig } from "../../autoencoders/wan/config.ts";
import { FrameHistory } from "../../autoencoders/wan/history.ts";
import { wanDecoder } from "../../autoencoders/wan/decoder.ts";
import { wanEncoder } from "../../autoencoders/wan/encoder.ts";
import type { Schedule } from "../../schedulers/mod.ts";
import { umt5Encoder } from "../../text_encoders/umt5.ts";
import type { WanComponents } from "./components.ts";
import { tableRows, TIMESTEP_ROWS, timestepRows } from "./modulation.ts";
import {
  patchFeatures,
  patchify,
  tokenCount,
  type TokenGrid,
  tokenGrid,
  unpatchify,
} from "./patches.ts";
import { SolverGraphs } from "./solver.ts";
import { wanContextStates, wanTransformer } from "./transformer.ts";

/** What the programs of a session depend on. */
export interface SessionShape {
  readonly latentFrames: number;
  /** Sides of the latents. */
  readonly height: number;
  readonly width: number;
  /** Rows of the prompt tensors: the longest prompt, a pad row, rounded up. */
  readonly contextTokens: number;
  /** `none`: one pass; `batched`: both prompts in one pass; `sequential`: two passes of half the memory. */
  readonly guidance: "none" | "batched" | "sequential";
  /** Whether the first latent frame is given and stays clean. */
  readonly hasFirstFrame: boolean;
  /** Narrowest operands of the transformer's programs; the target's when left out. */
  readonly operands?: Target["operands"];
}

/** The inputs and results of a session's programs. */
export interface SessionTensors {
  /** u32 [batch, contextTokens]. */
  readonly ids: Resident;
  /** u32 [batch]: prompt tokens. */
  readonly lengths: Resident;
  /** f32 [batch, contextTokens, 1]: 1 for prompt tokens, 0 for pads. */
  readonly mask: Resident;
  /** Per pass, u32 [prompts]: prompt tokens and the one row that stands for all pads. */
  readonly contextLengths: readonly Resident[];
  /** Per pass, f32 [prompts]. */
  readonly padLogits: readonly Resident[];
  /** Sinusoidal embeddings of all distinct timesteps, [timesteps, freq_dim]: with a given frame those of 0 last. */
  readonly timestepEmbeddings: Resident;
  /** What `timestepRows()` makes of them. */
  readonly timesteps: Resident;
  /** u32 [table rows, timesteps of a step]: which of `timesteps` the step has. */
  readonly modulationIndices: Resident;
  /** Noise at first, the result at last, normalised: [1, channels, frames, height, width]. */
  readonly latents: Resident;
  /** The same as patches while it is denoised, [1, tokens, features]. */
  readonly sample: Resident;
  /** Per pass, the velocities for its prompts, [prompts, tokens, features]. */
  readonly velocities: readonly Resident[];
  /** Patches of the first latent frame of image-to-video, [1, tokens, features]. */
  readonly firstFrame: Resident;
  /** Latents for the decoder, not normalised, [frames, height, width, channels]. */
  readonly decoderLatents: Resident;
  /** u32 [1]: the latent frame to decode. */
  readonly frameIndex: Resident;
  /** Decoded pixels of the first chunk and of later ones, [1, frames, height·s, width·s, 3]. */
  readonly firstPixels: Resident;
  readonly nextPixels: Resident;
  /** A picture to encode, [1, 1, height·s, width·s, 3]. */
  readonly picture: Resident;
}

/** See the file comment. */
export class WanSession {
  readonly shape: SessionShape;
  readonly tensors: SessionTensors;
  readonly plan: MemoryPlan;
  readonly solver: SolverGraphs;
  readonly history = new FrameHistory();
  /** What the keys and values of cross-attention were made from, once they are. */
  prompts: string | undefined;
  readonly #state: Resident[];
  #programs: ProgramSet | undefined;

  /** Traces and plans everything; allocates nothing. */
  constructor(components: WanComponents, shape: SessionShape, schedule: Schedule, target: Target) {
    this.shape = shape;
    const { config } = components.transformer;
    const grid = tokenGrid(config, [shape.latentFrames, shape.height, shape.width]);
    this.tensors = declareTensors(components, shape, grid, schedule.timesteps.length);
    const { sample, velocities } = this.tensors;
    this.solver = new SolverGraphs(schedule, {
      sample,
      outputs: (graph) =>
        velocities.flatMap((velocity) => {
          const x = graph.use(velocity);
          return Array.from({ length: x.dim(0) }, (_, i) => slice(x, 0, i, i + 1));
        }),
    }, target);
    const context: ContextResidents[] = [];
    const graphs: Record<string, Graph> = {
      text: traceText(components, shape, this.tensors, context, target),
      begin: traceBegin(components, this.tensors, target),
      ...traceDenoise(components, grid, shape, this.tensors, context, target),
      ...this.solver.graphs,
      finish: traceFinish(components, grid, shape, this.tensors, target),
      ...this.#traceDecode(components, target),
    };
    if (shape.hasFirstFrame) graphs["encode"] = this.#traceEncode(components, target);
    this.plan = planMemory(graphs);
    this.#state = [
      ...Object.values(this.tensors).flat() as Resident[],
      ...context.flatMap(({ key, value }) => [key, value]),
      ...this.solver.residents,
      ...this.history.residents,
    ].filter((resident) => this.plan.residents.has(resident));
  }

  /** Bytes that the session takes beside the weights, the copy that results are read through included. */
  get byteLength(): number {
    const { latents, firstPixels, nextPixels } = this.tensors;
    const chunks = [latents.byteLength + firstPixels.byteLength];
    if (this.#state.includes(nextPixels)) chunks.push(nextPixels.byteLength);
    return this.#state.reduce(
      (sum, { byteLength }) => sum + byteLength,
      this.plan.workspaceBytes + Math.max(...chunks),
    );
  }

  /** The programs; only between `allocate` and `destroy`. */
  get programs(): ProgramSet {
    if (!this.#programs) throw new Error("Cannot run the session: it is not allocated");
    return this.#programs;
  }

  /**
   * Takes device memory and compiles. The weights must be on the device. When it fails, nothing stays allocated.
   *
   * @throws {OutOfMemoryError} when the memory does not suffice
   * @throws {DOMException} `AbortError` when cancelled
   */
  async allocate(device: Device, control: RunControl = {}): Promise<void> {
    try {
      await device.guarded(() => {
        for (const resident of this.#state) resident.allocate(device);
      });
      this.#programs = await instantiate(this.plan, device, control);
    } catch (error) {
      this.destroy();
      throw error;
    }
  }

  /** Gives the device memory back. */
  destroy(): void {
    this.#programs?.destroy();
    this.#programs = undefined;
    this.prompts = undefined;
    for (const resident of this.#state) resident.destroy();
  }

  #traceDecode({ vae }: WanComponents, target: Target): Record<string, Graph> {
    const { decoderLatents, frameIndex, firstPixels, nextPixels } = this.tensors;
    const trace = (name: string, place: "only" | "first" | "next", pixels: Resident) => {
      const graph = new Graph(name, target);
      const stream = { place, history: this.history };
      const frames = graph.use(decoderLatents);
      const [count, height, width, channels] = frames.shape as [number, number, number, number];
      const frame = place === "next"
        ? gather(frames.reshape(count, -1), graph.use(frameIndex))
        : slice(frames, 0, 0, 1);
      const latent = frame.reshape(1, 1, height, width, channels);
      copyTo(wanDecoder(graph, vae.config, vae.weights.root, latent, stream), pixels);
      return graph;
    };
    if (this.shape.latentFrames === 1) {
      return { decodeFirst: trace("decodeFirst", "only", firstPixels) };
    }
    return {
      decodeFirst: trace("decodeFirst", "first", firstPixels),
      decodeNext: trace("decodeNext", "next", nextPixels),
    };
  }

  /** The first frame's latent: the mean of what the encoder gives, normalised, as patches. */
  #traceEncode({ transformer, vae }: WanComponents, target: Target): Graph {
    const graph = new Graph("encode", target);
    const stream = { place: "only" as const, history: new FrameHistory() };
    const { picture, firstFrame } = this.tensors;
    const moments = wanEncoder(graph, vae.config, vae.weights.root, graph.use(picture), stream);
    const latent = elementwise("(m - center) / spread", {
      m: slice(moments, -1, 0, vae.config.z_dim),
      ...latentScale(graph, vae.config),
    });
    copyTo(patchify(transformer.config, permute(latent, [0, 4, 1, 2, 3])), firstFrame);
    return graph;
  }
}

interface ContextResidents {
  readonly key: Resident;
  readonly value: Resident;
}

function declareTensors(
  { transformer, vae }: WanComponents,
  shape: SessionShape,
  grid: TokenGrid,
  steps: number,
): SessionTensors {
  const { latentFrames, height, width, contextTokens, hasFirstFrame } = shape;
  const { config } = transformer;
  const batch = shape.guidance === "none" ? 1 : 2;
  const passes = promptsPerPass(shape);
  const { scale_factor_spatial: spatial, scale_factor_temporal: temporal, z_dim } = vae.config;
  const dim = config.num_attention_heads * config.attention_head_dim;
  const features = patchFeatures(config, z_dim);
  const timesteps = hasFirstFrame ? steps + 1 : steps;
  const pixels = (frames: number) => [1, frames, height * spatial, width * spatial, 3];
  return {
    ids: new Resident("ids", [batch, contextTokens], "u32"),
    lengths: new Resident("lengths", [batch], "u32"),
    mask: new Resident("mask", [batch, contextTokens, 1]),
    contextLengths: passes.map((prompts) => new Resident("context lengths", [prompts], "u32")),
    padLogits: passes.map((prompts) => new Resident("pad logits", [prompts])),
    timestepEmbeddings: new Resident("timestep embeddings", [timesteps, config.freq_dim]),
    timesteps: new Resident("timesteps", [timesteps * TIMESTEP_ROWS, dim]),
    modulationIndices: new Resident(
      "modulation indices",
      [tableRows(config.num_layers), hasFirstFrame ? 2 : 1],
      "u32",
    ),
    latents: new Resident("latents", [1, z_dim, latentFrames, height, width]),
    sample: new Resident("sample", [1, tokenCount(grid), features]),
    velocities: passes.map((prompts) =>
      new Resident("velocity", [prompts, tokenCount(grid), features])
    ),
    firstFrame: new Resident("first frame", [1, tokenCount({ ...grid, frames: 1 }), features]),
    decoderLatents: new Resident("decoder latents", [latentFrames, height, width, z_dim]),
    frameIndex: new Resident("frame index", [1], "u32"),
    firstPixels: new Resident("first pixels", pixels(1)),
    nextPixels: new Resident("next pixels", pixels(temporal)),
    picture: new Resident("picture", pixels(1)),
  };
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

/** What is the same for all steps: noise as patches, timesteps as the blocks take them. */
function traceBegin(
  { transformer }: WanComponents,
  tensors: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("begin", target);
  const { config, weights } = transformer;
  copyTo(patchify(config, graph.use(tensors.latents)), tensors.sample);
  const embeddings = graph.use(tensors.timestepEmbeddings);
  const dim = tensors.timesteps.shape[1]!;
  copyTo(timestepRows(weights.root, embeddings, dim), tensors.timesteps);
  return graph;
}

/** The sample as latents, for the caller and for the decoder. */
function traceFinish(
  { transformer, vae }: WanComponents,
  grid: TokenGrid,
  shape: SessionShape,
  tensors: SessionTensors,
  target: Target,
): Graph {
  const graph = new Graph("finish", target);
  const tokens = withFirstFrame(graph, shape, tensors);
  const latents = unpatchify(transformer.config, tokens, grid);
  copyTo(permute(latents, [0, 4, 1, 2, 3]), tensors.latents);
  copyTo(
    elementwise("x * spread + center", { x: latents, ...latentScale(graph, vae.config) }),
    tensors.decoderLatents,
  );
  return graph;
}

/** Text encoder and everything of the transformer that only the prompt decides. */
function traceText(
  { textEncoder, transformer }: WanComponents,
  shape: SessionShape,
  tensors: SessionTensors,
  context: ContextResidents[],
  target: Target,
): Graph {
  const graph = new Graph("text", target);
  const states = umt5Encoder(graph, textEncoder.config, textEncoder.weights.root, {
    ids: graph.use(tensors.ids),
    lengths: graph.use(tensors.lengths),
  });
  const text = elementwise("h * mask", { h: states, mask: graph.use(tensors.mask) }, {
    name: "text",
  });
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

/** How many prompts each pass of the transformer sees. */
function promptsPerPass({ guidance }: SessionShape): number[] {
  return { none: [1], batched: [2], sequential: [1, 1] }[guidance];
}

/** One graph per pass. */
function traceDenoise(
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
      ...(shape.hasFirstFrame && { tokenTimesteps: tokenTimesteps(graph, grid) }),
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
  if (!shape.hasFirstFrame) return sample;
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
