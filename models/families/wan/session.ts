/**
 * The programs of a Wan pipeline for one size, number of frames and kind of guidance, with the tensors they share.
 * Kept between requests of the same kind: a second picture of a size traces, compiles and allocates nothing.
 */
import {
  concat,
  copyTo,
  type Device,
  elementwise,
  Graph,
  instantiate,
  type MemoryPlan,
  planMemory,
  type ProgramSet,
  Resident,
  type RunControl,
  slice,
  type Target,
  type Tensor,
} from "../../../runtime/mod.ts";
import { FrameHistory } from "../../autoencoders/wan/history.ts";
import { wanDecoder } from "../../autoencoders/wan/decoder.ts";
import { wanEncoder } from "../../autoencoders/wan/encoder.ts";
import type { Schedule } from "../../schedulers/mod.ts";
import { umt5Encoder } from "../../text_encoders/umt5.ts";
import type { WanComponents } from "./components.ts";
import type { WanTransformerConfig } from "./config.ts";
import { SolverGraphs } from "./solver.ts";
import { wanContextStates, type WanInputs, wanTransformer } from "./transformer.ts";

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
  /** [rows, freq_dim], one row per distinct timestep. */
  readonly timestep: Resident;
  /** f32 [1]. */
  readonly guidanceScale: Resident;
  /** [1, channels, frames, height, width]. */
  readonly latents: Resident;
  /** The velocity, guidance applied. */
  readonly velocity: Resident;
  /** First latent frame of image-to-video, [1, channels, 1, height, width]. */
  readonly firstFrame: Resident;
  /** One latent frame for the decoder, [1, 1, height, width, channels]. */
  readonly latentFrame: Resident;
  /** Decoded pixels of the first chunk and of later ones, [1, frames, height·s, width·s, 3]. */
  readonly firstPixels: Resident;
  readonly nextPixels: Resident;
  /** A picture to encode, [1, 1, height·s, width·s, 3], and what comes out, [1, 1, height, width, 2·channels]. */
  readonly picture: Resident;
  readonly moments: Resident;
}

/** See the file comment. */
export class WanSession {
  readonly shape: SessionShape;
  readonly tensors: SessionTensors;
  readonly plan: MemoryPlan;
  readonly solver: SolverGraphs;
  readonly history = new FrameHistory();
  readonly #state: Resident[];
  #programs: ProgramSet | undefined;

  /** Traces and plans everything; allocates nothing. */
  constructor(components: WanComponents, shape: SessionShape, schedule: Schedule, target: Target) {
    this.shape = shape;
    this.tensors = declareTensors(components, shape);
    this.solver = new SolverGraphs(schedule, {
      sample: this.tensors.latents,
      output: this.tensors.velocity,
    }, target);
    const context: ContextResidents[] = [];
    const velocities: Resident[] = [];
    const graphs: Record<string, Graph> = {
      text: traceText(components, shape, this.tensors, context, target),
      ...traceDenoise(components, shape, this.tensors, context, velocities, target),
      ...this.solver.graphs,
      ...this.#traceDecode(components, target),
    };
    if (shape.hasFirstFrame) graphs["encode"] = this.#traceEncode(components, target);
    this.plan = planMemory(graphs);
    this.#state = [
      ...Object.values(this.tensors).flat() as Resident[],
      ...context.flatMap(({ key, value }) => [key, value]),
      ...velocities,
      ...this.solver.residents,
      ...this.history.residents,
    ].filter((resident) => this.plan.residents.has(resident));
  }

  /** Bytes that the session takes beside the weights, the copy that its largest result is read through included. */
  get byteLength(): number {
    const { latents, firstPixels, nextPixels, moments } = this.tensors;
    const results = [latents, firstPixels, nextPixels, moments].filter((result) =>
      this.#state.includes(result)
    );
    return this.#state.reduce(
      (sum, { byteLength }) => sum + byteLength,
      this.plan.workspaceBytes + Math.max(...results.map(({ byteLength }) => byteLength)),
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
    for (const resident of this.#state) resident.destroy();
  }

  #traceDecode({ vae }: WanComponents, target: Target): Record<string, Graph> {
    const { latentFrame, firstPixels, nextPixels } = this.tensors;
    const trace = (name: string, place: "only" | "first" | "next", pixels: Resident) => {
      const graph = new Graph(name, target);
      const stream = { place, history: this.history };
      copyTo(
        wanDecoder(graph, vae.config, vae.weights.root, graph.use(latentFrame), stream),
        pixels,
      );
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

  #traceEncode({ vae }: WanComponents, target: Target): Graph {
    const graph = new Graph("encode", target);
    const stream = { place: "only" as const, history: new FrameHistory() };
    const { picture, moments } = this.tensors;
    copyTo(wanEncoder(graph, vae.config, vae.weights.root, graph.use(picture), stream), moments);
    return graph;
  }
}

interface ContextResidents {
  readonly key: Resident;
  readonly value: Resident;
}

function declareTensors({ transformer, vae }: WanComponents, shape: SessionShape): SessionTensors {
  const { latentFrames, height, width, contextTokens } = shape;
  const batch = shape.guidance === "none" ? 1 : 2;
  const passes = promptsPerPass(shape);
  const channels = transformer.config.in_channels;
  const { scale_factor_spatial: spatial, scale_factor_temporal: temporal, z_dim } = vae.config;
  const latents = [1, channels, latentFrames, height, width];
  const pixels = (frames: number) => [1, frames, height * spatial, width * spatial, 3];
  return {
    ids: new Resident("ids", [batch, contextTokens], "u32"),
    lengths: new Resident("lengths", [batch], "u32"),
    mask: new Resident("mask", [batch, contextTokens, 1]),
    contextLengths: passes.map((prompts) => new Resident("context lengths", [prompts], "u32")),
    padLogits: passes.map((prompts) => new Resident("pad logits", [prompts])),
    timestep: new Resident("timestep", [shape.hasFirstFrame ? 2 : 1, transformer.config.freq_dim]),
    guidanceScale: new Resident("guidance scale", [1]),
    latents: new Resident("latents", latents),
    velocity: new Resident("velocity", latents),
    firstFrame: new Resident("first frame", [1, channels, 1, height, width]),
    latentFrame: new Resident("latent frame", [1, 1, height, width, z_dim]),
    firstPixels: new Resident("first pixels", pixels(1)),
    nextPixels: new Resident("next pixels", pixels(temporal)),
    picture: new Resident("picture", pixels(1)),
    moments: new Resident("moments", [1, 1, height, width, 2 * z_dim]),
  };
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

/** One graph per pass; the last one leaves the guided velocity. */
function traceDenoise(
  { transformer }: WanComponents,
  shape: SessionShape,
  tensors: SessionTensors,
  context: readonly ContextResidents[],
  velocities: Resident[],
  target: Target,
): Record<string, Graph> {
  const { config, weights } = transformer;
  const graphs: Record<string, Graph> = {};
  promptsPerPass(shape).forEach((_, pass) => {
    const graph = new Graph(`denoise${pass}`, target);
    graphs[graph.name] = graph;
    const blocks = context.slice(pass * config.num_layers, (pass + 1) * config.num_layers);
    const velocity = wanTransformer(graph, config, weights.root, {
      ...transformerInputs(graph, config, shape, tensors),
      timestepEmbedding: graph.use(tensors.timestep),
      context: {
        blocks: blocks.map(({ key, value }) => ({ key: graph.use(key), value: graph.use(value) })),
        lengths: graph.use(tensors.contextLengths[pass]!),
        padLogit: graph.use(tensors.padLogits[pass]!),
      },
    });
    if (shape.guidance === "none") return copyTo(velocity, tensors.velocity);
    if (shape.guidance === "sequential" && pass === 0) {
      const conditional = new Resident("conditional velocity", velocity.shape);
      velocities.push(conditional);
      return copyTo(velocity, conditional);
    }
    const [conditional, unconditional] = shape.guidance === "batched"
      ? [slice(velocity, 0, 0, 1), slice(velocity, 0, 1, 2)]
      : [graph.use(velocities[0]!), velocity];
    const scale = graph.use(tensors.guidanceScale);
    copyTo(
      elementwise("u + g * (c - u)", { u: unconditional, c: conditional, g: scale }),
      tensors.velocity,
    );
  });
  return graphs;
}

/** The latents, with the given first frame in place, and which timestep each token has. */
function transformerInputs(
  graph: Graph,
  config: WanTransformerConfig,
  shape: SessionShape,
  tensors: SessionTensors,
): Pick<WanInputs, "latents" | "timestepRows"> {
  const latents = graph.use(tensors.latents);
  if (!shape.hasFirstFrame) return { latents };
  const [, rows, columns] = config.patch_size;
  const tokensPerFrame = shape.height / rows * (shape.width / columns);
  const tokenRows = Uint32Array.from(
    { length: tokensPerFrame * shape.latentFrames },
    (_, token) => (token < tokensPerFrame ? 0 : 1),
  );
  const rest = shape.latentFrames > 1 ? [slice(latents, 2, 1, shape.latentFrames)] : [];
  return {
    latents: concat([graph.use(tensors.firstFrame), ...rest], 2),
    timestepRows: graph.constant("timestep rows", [tokenRows.length], "u32", tokenRows),
  };
}
