/**
 * Text to image, text to video and image to video with Wan.
 *
 * Source: diffusers `WanPipeline` and `WanImageToVideoPipeline` (with `expand_timesteps`).
 */
import type { ModelIndex } from "../../../hub/model_index.ts";
import {
  type Device,
  elementCount,
  OutOfMemoryError,
  type Run,
  runSequence,
  type Weights,
} from "../../../runtime/mod.ts";
import { timestepEmbedding } from "../../embeddings.ts";
import { TorchGenerator } from "../../noise.ts";
import { explainNonFinite, isFinite } from "../../non_finite.ts";
import type {
  Pipeline,
  PipelineControl,
  PipelineInfo,
  PipelineRequest,
  PipelineResult,
} from "../../pipeline.ts";
import { cleanPrompt } from "../../prompt_cleaning.ts";
import type { Schedule } from "../../schedulers/mod.ts";
import { openWanComponents, type WanComponents } from "./components.ts";
import { wanInfo } from "./defaults.ts";
import {
  denormalizeFrame,
  latentFrameCount,
  normalizeMoments,
  replaceFirstFrame,
  toUnitRange,
} from "./latents.ts";
import { contextRows, writePrompts } from "./prompts.ts";
import { type SessionShape, WanSession } from "./session.ts";

/** Tokens that prompts are padded to in the reference; longer ones are cut. */
const MAX_SEQUENCE_LENGTH = 512;

/** Opens a Wan pipeline folder; nothing is on the device yet. */
export async function openWanPipeline(index: ModelIndex): Promise<WanPipeline> {
  return new WanPipeline(await openWanComponents(index), index);
}

/** See the file comment. */
export class WanPipeline implements Pipeline {
  readonly info: PipelineInfo;
  readonly #components: WanComponents;
  #device: Device | undefined;
  #session: { key: string; session: WanSession } | undefined;

  /** Use {@linkcode openWanPipeline}. */
  constructor(components: WanComponents, index: ModelIndex) {
    this.#components = components;
    this.info = wanInfo(components, index);
  }

  /** Declares the weights that requests can need by tracing the smallest session, then uploads them. */
  async load(device: Device, onProgress?: (fraction: number) => void): Promise<void> {
    const { pipeline, transformer, scheduler } = this.#components;
    const [, rows, columns] = transformer.config.patch_size;
    const smallest = {
      height: rows * 2,
      width: columns * 2,
      contextTokens: 16,
      guidance: "none" as const,
    };
    const schedule = scheduler.setTimesteps(2);
    new WanSession(
      this.#components,
      { ...smallest, latentFrames: 2, hasFirstFrame: pipeline.expand_timesteps },
      schedule,
      device.target,
    );
    const parts = this.#weights;
    const total = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
    if (total > device.availableBytes) {
      throw new OutOfMemoryError(
        `Cannot load the model: its weights take ${megabytes(total)} on the device, ${
          megabytes(device.availableBytes, Math.floor)
        } may be taken. Allow more memory, or choose a smaller model`,
        total,
        device.availableBytes,
      );
    }
    let before = 0;
    for (const weights of parts) {
      await weights.upload(device, (done) => onProgress?.((before + done) / total));
      before += weights.byteLength;
    }
    this.#device = device;
  }

  /** Frees the device memory and closes the files. */
  [Symbol.dispose](): void {
    this.#dropSession();
    for (const weights of this.#weights) weights.destroy();
    this.#components[Symbol.dispose]();
  }

  /** @inheritdoc */
  async generate(request: PipelineRequest, control: PipelineControl = {}): Promise<PipelineResult> {
    const device = this.#requireDevice();
    this.#check(request);
    try {
      return await this.#generate(device, request, control);
    } catch (error) {
      // What failed on the GPU may have left invalid buffers behind: the next request starts from new ones.
      const isCancelled = error instanceof DOMException && error.name === "AbortError";
      if (!isCancelled) this.#dropSession();
      throw error;
    }
  }

  async #generate(
    device: Device,
    request: PipelineRequest,
    control: PipelineControl,
  ): Promise<PipelineResult> {
    const timings: Record<string, number> = {};
    let last = performance.now();
    const lap = (stage: string) => {
      const now = performance.now();
      timings[stage] = now - last;
      last = now;
    };

    // 1. Prompts to tokens, the seed to a generator.
    const prompts = request.guidanceScale > 1
      ? [request.prompt, request.negativePrompt]
      : [request.prompt];
    const generator = new TorchGenerator(request.seed);
    const maxLength = request.maxSequenceLength ?? MAX_SEQUENCE_LENGTH;
    const tokens = prompts.map((prompt) =>
      this.#components.tokenizer.encode(cleanPrompt(prompt), { maxLength })
    );

    // 2. Programs for this kind of request.
    const schedule = this.#components.scheduler.setTimesteps(request.numInferenceSteps);
    const rows = contextRows(Math.max(...tokens.map(({ length }) => length)), maxLength);
    const session = await this.#sessionFor(device, request, rows, schedule, control);
    lap("prepare");

    // 3. Text encoder, and the keys and values of cross-attention.
    control.onProgress?.({ stage: "encode", step: 0, totalSteps: 1 });
    const { programs, tensors } = session;
    writePrompts(tensors, tokens, maxLength);
    await runSequence(device, [{ programs: [programs.get("text")] }], control);
    const condition = request.firstFrame &&
      await this.#encodeFirstFrame(device, session, request.firstFrame, control);
    lap("encode");

    // 4. Noise, equal to torch's for the seed.
    tensors.latents.write(generator.randn(elementCount(tensors.latents.shape)));
    if (session.shape.guidance !== "none") tensors.guidanceScale.write([request.guidanceScale]);

    // 5. Denoise.
    await runSequence(device, this.#denoiseRuns(session, schedule, control), control);
    lap("denoise");

    // 6. Decode, one latent frame at a time.
    const latents = await tensors.latents.readFloat32();
    if (condition) replaceFirstFrame(latents, condition, tensors.latents.shape);
    if (!isFinite(latents)) {
      throw explainNonFinite("the transformer", this.#weights, request.guidanceScale);
    }
    const frames = await this.#decode(device, session, latents, request.guidanceScale, control);
    lap("decode");
    return { frames, latents, timings };
  }

  /** The weights of all parts, in the order in which they are used. */
  get #weights(): Weights[] {
    const { textEncoder, transformer, vae } = this.#components;
    return [textEncoder, transformer, vae].map(({ weights }) => weights);
  }

  #requireDevice(): Device {
    if (!this.#device) throw new Error("Cannot generate: the model is not loaded");
    return this.#device;
  }

  #dropSession(): void {
    this.#session?.session.destroy();
    this.#session = undefined;
  }

  #check(request: PipelineRequest): void {
    const { width, height, numFrames, numInferenceSteps, guidanceScale, firstFrame } = request;
    const { sizeMultiple } = this.info;
    for (const [name, value] of Object.entries({ width, height })) {
      if (!Number.isInteger(value) || value < sizeMultiple || value % sizeMultiple !== 0) {
        const nearest = Math.max(sizeMultiple, Math.round(value / sizeMultiple) * sizeMultiple);
        throw new RangeError(
          `Cannot make a picture of ${width}x${height}: the ${name} must be a multiple of ${sizeMultiple}, for example ${nearest}`,
        );
      }
    }
    if (!Number.isInteger(numFrames) || numFrames < 1) {
      throw new RangeError(`Cannot make ${numFrames} frames: at least 1 is needed`);
    }
    if (!Number.isInteger(numInferenceSteps) || numInferenceSteps < 1) {
      throw new RangeError(`Cannot denoise in ${numInferenceSteps} steps: at least 1 is needed`);
    }
    if (!Number.isFinite(guidanceScale)) {
      throw new RangeError(`Cannot guide with a scale of ${guidanceScale}: it must be a number`);
    }
    if (firstFrame && !this.#components.pipeline.expand_timesteps) {
      throw new RangeError("Cannot start from an image: this model takes text only");
    }
  }

  /** The programs for a request: those of the last one when it was of the same kind. */
  async #sessionFor(
    device: Device,
    request: PipelineRequest,
    contextTokens: number,
    schedule: Schedule,
    control: PipelineControl,
  ): Promise<WanSession> {
    const { scale_factor_spatial: spatial, scale_factor_temporal: temporal } =
      this.#components.vae.config;
    const shape: SessionShape = {
      latentFrames: latentFrameCount(request.numFrames, temporal),
      height: request.height / spatial,
      width: request.width / spatial,
      contextTokens,
      guidance: request.guidanceScale > 1 ? request.guidancePasses ?? "batched" : "none",
      hasFirstFrame: request.firstFrame !== undefined,
    };
    const key = JSON.stringify([shape, schedule.timesteps.length]);
    if (this.#session?.key === key) return this.#session.session;
    this.#dropSession();
    const plan = (guidance: SessionShape["guidance"]) =>
      new WanSession(this.#components, { ...shape, guidance }, schedule, device.target);
    let session = plan(shape.guidance);
    if (session.byteLength > device.availableBytes && shape.guidance === "batched") {
      const sequential = plan("sequential");
      // Where the autoencoder needs most, a second pass saves nothing and its programs cost a little.
      if (sequential.byteLength < session.byteLength) session = sequential;
    }
    if (session.byteLength > device.availableBytes) {
      throw new OutOfMemoryError(
        `Cannot make ${request.width}x${request.height} with ${request.numFrames} ${
          request.numFrames === 1 ? "frame" : "frames"
        }: it needs ${megabytes(session.byteLength)} beside the weights, ${
          megabytes(device.availableBytes, Math.floor)
        } are left. Ask for a smaller size or fewer frames, or allow more memory`,
        session.byteLength,
        device.availableBytes,
      );
    }
    await session.allocate(device, control);
    this.#session = { key, session };
    return session;
  }

  *#denoiseRuns(session: WanSession, schedule: Schedule, control: PipelineControl): Generator<Run> {
    const { programs, tensors } = session;
    const passes = session.shape.guidance === "sequential"
      ? ["denoise0", "denoise1"]
      : ["denoise0"];
    const model = passes.map((name) => programs.get(name));
    const totalSteps = schedule.timesteps.length;
    const { freq_dim } = this.#components.transformer.config;
    control.onProgress?.({ stage: "denoise", step: 0, totalSteps });
    for (let i = 0; i < totalSteps; i++) {
      const timestep = schedule.timesteps[i]!;
      const rows = session.shape.hasFirstFrame ? [0, timestep] : [timestep];
      const step = session.solver.step(i, programs);
      yield {
        programs: [...model, ...step.programs],
        before: () => {
          tensors.timestep.write(timestepEmbedding(rows, freq_dim));
          step.before();
        },
        finished: () => control.onProgress?.({ stage: "denoise", step: i + 1, totalSteps }),
      };
    }
  }

  /** The normalised latent of the picture that a clip starts from. */
  async #encodeFirstFrame(
    device: Device,
    { programs, tensors }: WanSession,
    picture: Float32Array,
    control: PipelineControl,
  ): Promise<Float32Array> {
    tensors.picture.write(picture);
    await runSequence(device, [{ programs: [programs.get("encode")] }], control);
    const moments = await tensors.moments.readFloat32();
    const condition = normalizeMoments(moments, this.#components.vae.config);
    tensors.firstFrame.write(condition);
    return condition;
  }

  async #decode(
    device: Device,
    session: WanSession,
    latents: Float32Array,
    guidanceScale: number,
    control: PipelineControl,
  ): Promise<Float32Array[]> {
    const { programs, tensors, history, shape } = session;
    const { config, weights } = this.#components.vae;
    const totalSteps = shape.latentFrames;
    const frames: Float32Array[] = [];
    for (const cache of history.residents) cache.clear();
    control.onProgress?.({ stage: "decode", step: 0, totalSteps });
    for (let i = 0; i < totalSteps; i++) {
      const program = programs.get(i === 0 ? "decodeFirst" : "decodeNext");
      const pixels = i === 0 ? tensors.firstPixels : tensors.nextPixels;
      tensors.latentFrame.write(denormalizeFrame(latents, i, tensors.latents.shape, config));
      await runSequence(device, [{ programs: [program] }], control);
      const decoded = await pixels.readFloat32();
      if (!isFinite(decoded)) throw explainNonFinite("the autoencoder", [weights], guidanceScale);
      const frameSize = decoded.length / pixels.shape[1]!;
      for (let start = 0; start < decoded.length; start += frameSize) {
        frames.push(toUnitRange(decoded.subarray(start, start + frameSize)));
      }
      control.onProgress?.({ stage: "decode", step: i + 1, totalSteps });
    }
    return frames;
  }
}

function megabytes(bytes: number, round: (value: number) => number = Math.ceil): string {
  return `${round(bytes / 1e6)} MB`;
}
