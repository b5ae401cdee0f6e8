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
import { latentFrameCount, toUnitRange } from "./latents.ts";
import { modulationIndices } from "./modulation.ts";
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
    const timings: Record<string, number> = { prepare: 0, encode: 0, denoise: 0, decode: 0 };
    let last = performance.now();
    const lap = (stage: string) => {
      const now = performance.now();
      timings[stage]! += now - last;
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
    session.tensors.latents.write(generator.randn(elementCount(session.tensors.latents.shape)));
    lap("prepare");

    // 3. Text encoder, denoising and decoding in one sequence, so that the GPU never waits for this thread.
    const frames: Float32Array[] = [];
    const result = { latents: new Float32Array(), frames };
    await runSequence(
      device,
      this.#runs(session, { request, schedule, tokens, maxLength }, result, control, lap),
      control,
    );
    return { ...result, timings };
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
      ...(request.quality === "high" && { operands: "int8" }),
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

  /** Everything that the GPU does for a request. */
  *#runs(
    session: WanSession,
    work: Work,
    result: { latents: Float32Array; frames: Float32Array[] },
    control: PipelineControl,
    lap: (stage: string) => void,
  ): Generator<Run> {
    yield* this.#encodeRuns(session, work, control, () => lap("encode"));
    yield* this.#denoiseRuns(session, work, control, () => lap("denoise"));
    yield* this.#decodeRuns(session, work, result, control, () => lap("decode"));
  }

  /** Text encoder, and the keys and values of cross-attention, unless they are there; the given first frame. */
  *#encodeRuns(
    session: WanSession,
    { request: { firstFrame }, tokens, maxLength }: Work,
    { onProgress }: PipelineControl,
    finished: () => void,
  ): Generator<Run> {
    const { programs, tensors } = session;
    const prompts = JSON.stringify([tokens, maxLength]);
    onProgress?.({ stage: "encode", step: 0, totalSteps: 1 });
    if (firstFrame) {
      const before = () => tensors.picture.write(firstFrame);
      yield { programs: [programs.get("encode")], stage: "encode", before, finished };
    }
    if (session.prompts === prompts) return;
    session.prompts = undefined;
    yield {
      programs: [programs.get("text")],
      stage: "encode",
      before: () => writePrompts(tensors, tokens, maxLength),
      finished: () => {
        session.prompts = prompts;
        finished();
      },
    };
  }

  *#denoiseRuns(
    session: WanSession,
    { request: { guidanceScale }, schedule }: Work,
    { onProgress }: PipelineControl,
    finished: () => void,
  ): Generator<Run> {
    const { programs, tensors, shape, solver } = session;
    const { config } = this.#components.transformer;
    const model = tensors.velocities.map((_, pass) => programs.get(`denoise${pass}`));
    const timesteps = [...schedule.timesteps];
    const totalSteps = timesteps.length;
    const weights = shape.guidance === "none" ? [1] : [guidanceScale, 1 - guidanceScale];
    yield {
      programs: [programs.get("begin")],
      stage: "denoise",
      before: () => {
        onProgress?.({ stage: "denoise", step: 0, totalSteps });
        const all = shape.hasFirstFrame ? [...timesteps, 0] : timesteps;
        tensors.timestepEmbeddings.write(timestepEmbedding(all, config.freq_dim));
      },
    };
    for (let i = 0; i < totalSteps; i++) {
      const step = solver.step(i, programs, weights);
      const rows = shape.hasFirstFrame ? [totalSteps, i] : [i];
      yield {
        programs: [...model, ...step.programs],
        stage: "denoise",
        before: () => {
          tensors.modulationIndices.write(modulationIndices(config, rows));
          step.before();
        },
        finished: () => {
          onProgress?.({ stage: "denoise", step: i + 1, totalSteps });
          if (i + 1 === totalSteps) finished();
        },
      };
    }
  }

  /** The latents as the caller gets them, and then one latent frame at a time. */
  *#decodeRuns(
    session: WanSession,
    { request: { guidanceScale } }: Work,
    result: { latents: Float32Array; frames: Float32Array[] },
    { onProgress }: PipelineControl,
    finished: () => void,
  ): Generator<Run> {
    const { programs, tensors, history, shape } = session;
    const device = this.#requireDevice();
    const totalSteps = shape.latentFrames;
    for (let i = 0; i < totalSteps; i++) {
      const isFirst = i === 0;
      const pixels = isFirst ? tensors.firstPixels : tensors.nextPixels;
      yield {
        programs: isFirst
          ? [programs.get("finish"), programs.get("decodeFirst")]
          : [programs.get("decodeNext")],
        stage: "decode",
        before: () => {
          if (!isFirst) return tensors.frameIndex.write([i]);
          const caches = [...history.residents];
          if (caches.length > 0) device.clear(caches.flatMap(({ windows }) => windows));
          onProgress?.({ stage: "decode", step: 0, totalSteps });
        },
        reads: isFirst ? [tensors.latents, pixels] : [pixels],
        finished: (contents) => {
          if (isFirst) {
            result.latents = contents[0]!;
            if (!isFinite(result.latents)) {
              throw explainNonFinite("the transformer", this.#weights, guidanceScale);
            }
          }
          result.frames.push(...this.#toFrames(contents.at(-1)!, pixels.shape[1]!, guidanceScale));
          onProgress?.({ stage: "decode", step: i + 1, totalSteps });
          if (i + 1 === totalSteps) finished();
        },
      };
    }
  }

  /** Decoded pixels as pictures. */
  #toFrames(decoded: Float32Array, count: number, guidanceScale: number): Float32Array[] {
    const { weights } = this.#components.vae;
    if (!isFinite(decoded)) throw explainNonFinite("the autoencoder", [weights], guidanceScale);
    const size = decoded.length / count;
    return Array.from(
      { length: count },
      (_, i) => toUnitRange(decoded.subarray(i * size, (i + 1) * size)),
    );
  }
}

/** What the runs of a request are made from. */
interface Work {
  readonly request: PipelineRequest;
  readonly schedule: Schedule;
  /** Ids of every prompt. */
  readonly tokens: readonly (readonly number[])[];
  readonly maxLength: number;
}

function megabytes(bytes: number, round: (value: number) => number = Math.ceil): string {
  return `${round(bytes / 1e6)} MB`;
}
