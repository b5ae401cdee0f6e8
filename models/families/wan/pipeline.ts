/**
 * Pictures and clips with Wan: from text, from a first frame, after a given clip, and pictures changed as a text says.
 *
 * Source: diffusers `WanPipeline`, `WanImageToVideoPipeline` (with `expand_timesteps`) and `WanVideoToVideoPipeline`.
 * A change is a short clip that goes on from the picture, of which the last frame is kept, as ChronoEdit does it.
 */
import {
  type Device,
  elementCount,
  OutOfMemoryError,
  runSequence,
  type Weights,
} from "../../../runtime/mod.ts";
import type { ModelFiles } from "../../checkpoints/model_files.ts";
import { TorchGenerator } from "../../noise.ts";
import type {
  Pipeline,
  PipelineControl,
  PipelineInfo,
  PipelineRequest,
  PipelineResult,
  PipelineTask,
} from "../../pipeline.ts";
import { cleanPrompt } from "../../prompt_cleaning.ts";
import { type Schedule, strengthStart } from "../../schedulers/mod.ts";
import { checkBytes, checkPictures, checkRequest } from "../check_request.ts";
import { megabytes, uploadWeights } from "../upload_weights.ts";
import { openWanComponents, type WanComponents } from "./components.ts";
import { wanInfo } from "./defaults.ts";
import { latentFrameCount } from "./latents.ts";
import { contextRows } from "./prompts.ts";
import { requestRuns } from "./runs.ts";
import { WanSession } from "./session.ts";
import type { SessionShape } from "./session_tensors.ts";

/** Tokens that prompts are padded to in the reference; longer ones are cut. */
const MAX_SEQUENCE_LENGTH = 512;

/** What a task needs, and what the transformer's work starts from. */
const TASKS: Readonly<
  Record<PipelineTask, { readonly source: SessionShape["source"]; readonly isPicture: boolean }>
> = {
  T2I: { source: "text", isPicture: true },
  T2V: { source: "text", isPicture: false },
  I2V: { source: "picture", isPicture: false },
  TI2I: { source: "picture", isPicture: true },
  V2V: { source: "clip", isPicture: false },
};

/** Opens a Wan pipeline, to which the files belong from then on; nothing is on the device yet. */
export async function openWanPipeline(files: ModelFiles): Promise<WanPipeline> {
  return new WanPipeline(await openWanComponents(files), files.className);
}

/** See the file comment. */
export class WanPipeline implements Pipeline {
  readonly info: PipelineInfo;
  readonly #components: WanComponents;
  #device: Device | undefined;
  #session: { key: string; session: WanSession } | undefined;

  /** Use {@linkcode openWanPipeline}. */
  constructor(components: WanComponents, className: string) {
    this.#components = components;
    this.info = wanInfo(components, className);
  }

  /** Declares the weights that requests can need by tracing the smallest session, then uploads them. */
  async load(device: Device, onProgress?: (fraction: number) => void): Promise<void> {
    const { transformer, scheduler } = this.#components;
    const [, rows, columns] = transformer.config.patch_size;
    const smallest = {
      height: rows * 2,
      width: columns * 2,
      contextTokens: 16,
      guidance: "none" as const,
    };
    const schedule = scheduler.setTimesteps(2);
    // One that begins with a clip uses all weights that any other does.
    new WanSession(
      this.#components,
      { ...smallest, latentFrames: 2, source: "clip", hasPreviews: false },
      schedule,
      device.target,
    );
    await uploadWeights(this.#weights, device, onProgress);
    this.#device = device;
  }

  /** Frees the device memory and closes the files. */
  [Symbol.dispose](): void {
    this.#dropSession();
    for (const weights of this.#weights) weights.destroy();
    this.#components[Symbol.dispose]();
  }

  /** @inheritdoc */
  prepare(): Promise<void> {
    return Promise.resolve();
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
    const { numInferenceSteps, strength } = request;
    const start = strength === undefined ? 0 : strengthStart(numInferenceSteps, strength, "steps");
    const schedule = this.#components.scheduler.setTimesteps(numInferenceSteps, { start });
    const rows = contextRows(Math.max(...tokens.map(({ length }) => length)), maxLength);
    const shape = this.#shapeOf(request, rows, control);
    const kind = JSON.stringify([shape, numInferenceSteps, start]);
    const session = await this.#sessionFor(device, request, kind, shape, schedule, control);
    session.tensors.latents.write(generator.randn(elementCount(session.tensors.latents.shape)));
    lap("prepare");

    // 3. Encoders, denoising and decoding in one sequence, so that the GPU never waits for this thread.
    const frames: Float32Array[] = [];
    const result = { latents: new Float32Array(), frames };
    const components = this.#components;
    const work = {
      device,
      components,
      session,
      request,
      schedule,
      tokens,
      maxLength,
      control,
      lap,
    };
    await runSequence(device, requestRuns(work, result), control);
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
    checkRequest(request, this.info);
    const { numFrames } = request;
    const { maxFrames } = this.info;
    if (!Number.isInteger(numFrames) || numFrames < 1) {
      throw new RangeError(`Cannot make ${numFrames} frames: at least 1 is needed`);
    }
    if (numFrames > maxFrames) {
      throw new RangeError(
        `Cannot make ${numFrames} frames: the model has positions for ${maxFrames}; ask for fewer`,
      );
    }
    this.#checkSource(request);
  }

  /** Pictures and clips, which the task must want, and their bytes. */
  #checkSource(request: PipelineRequest): void {
    const { task, clip, strength } = request;
    const { source } = TASKS[task];
    checkPictures(request, this.info, source === "picture");
    if ((source === "clip") !== (clip !== undefined) || clip?.length === 0) {
      throw new RangeError(`Cannot do ${task}: it takes ${clip?.length ? "no" : "a"} clip`);
    }
    if ((source === "clip") !== (strength !== undefined)) {
      throw new RangeError(
        `Cannot do ${task}: it ${strength === undefined ? "needs a" : "has no"} strength`,
      );
    }
    for (const frame of clip ?? []) checkBytes(frame, request);
  }

  #shapeOf(
    request: PipelineRequest,
    contextTokens: number,
    { previews = 0 }: PipelineControl,
  ): SessionShape {
    const { scale_factor_spatial: spatial, scale_factor_temporal: temporal } =
      this.#components.vae.config;
    const { source, isPicture } = TASKS[request.task];
    // A change takes the shortest clip that has two latent frames.
    const pictureFrames = source === "picture" ? 1 + temporal : 1;
    return {
      latentFrames: latentFrameCount(isPicture ? pictureFrames : request.numFrames, temporal),
      height: request.height / spatial,
      width: request.width / spatial,
      contextTokens,
      guidance: request.guidanceScale > 1 ? request.guidancePasses ?? "batched" : "none",
      source,
      hasPreviews: previews > 0,
      ...(request.quality === "high" && { operands: "int8" }),
    };
  }

  /** The programs for a request: those of the last one when it was of the same kind. */
  async #sessionFor(
    device: Device,
    request: PipelineRequest,
    key: string,
    shape: SessionShape,
    schedule: Schedule,
    control: PipelineControl,
  ): Promise<WanSession> {
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
}
