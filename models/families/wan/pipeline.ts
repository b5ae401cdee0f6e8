/**
 * Pictures and clips with Wan: from text, from a first frame, after a given clip, and pictures changed as a text says.
 *
 * Source: diffusers `WanPipeline`, `WanImageToVideoPipeline` (with `expand_timesteps`) and `WanVideoToVideoPipeline`.
 * A change is a short clip that goes on from the picture, of which the last frame is kept, as ChronoEdit does it.
 */
import { type Device, elementCount } from "../../../runtime/mod.ts";
import { AdaptedComponent } from "../../adapters/adapted_component.ts";
import type { AppliedAdapter } from "../../adapters/types.ts";
import type { ModelFiles } from "../../checkpoints/model_files.ts";
import type { MemoryReport } from "../../memory/memory_report.ts";
import { type Candidates, type MemoryOptions, ModelMemory } from "../../memory/model_memory.ts";
import { TorchGenerator } from "../../noise.ts";
import { OverflowError } from "../../non_finite.ts";
import type {
  Pipeline,
  PipelineControl,
  PipelineInfo,
  PipelineRequest,
  PipelineResult,
  PipelineTask,
  PlanRequest,
} from "../../pipeline.ts";
import { PromptCache } from "../../prompt_cache.ts";
import { cleanPrompt } from "../../prompt_cleaning.ts";
import { strengthStart } from "../../schedulers/mod.ts";
import { checkBytes, checkPictures, checkRequest } from "../check_request.ts";
import { componentsOf, openWanComponents, type WanComponents } from "./components.ts";
import { wanInfo } from "./defaults.ts";
import { latentFrameCount } from "./latents.ts";
import { ORIGINAL_WAN } from "./layouts.ts";
import { contextRows } from "./prompts.ts";
import { requestStages } from "./runs.ts";
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
  readonly #memory: ModelMemory<WanSession>;
  readonly #encoded = new PromptCache();
  /** Whether narrow factors have given values that are not numbers. */
  #overflows = false;

  /** Use {@linkcode openWanPipeline}. */
  constructor(components: WanComponents, className: string) {
    this.#components = components;
    this.#memory = new ModelMemory(componentsOf(components), [
      new AdaptedComponent(components.transformer.weights, {
        target: "transformer",
        family: "Wan",
        layouts: [ORIGINAL_WAN],
      }),
      new AdaptedComponent(components.textEncoder.weights, {
        target: "text_encoder",
        family: "UMT5",
        layouts: [],
      }),
    ]);
    this.info = wanInfo(components, className, this.#memory.adaptable);
  }

  /** Declares the weights that requests can need, and uploads those that the likeliest request leaves there. */
  async load(
    device: Device,
    onProgress?: (fraction: number) => void,
    options: MemoryOptions = {},
  ): Promise<void> {
    const { config } = this.#components.transformer;
    const [, rows, columns] = config.patch_size;
    const smallest = {
      height: rows * 2,
      width: columns * 2,
      contextTokens: 16,
      guidance: "none" as const,
      hasPreviews: false,
    };
    const schedule = this.#components.scheduler.setTimesteps(2);
    const trace = (source: SessionShape["source"], latentFrames: number) => {
      const shape = { ...smallest, source, latentFrames };
      return new WanSession(this.#components, shape, schedule, device.target);
    };
    // One that begins with a clip uses all weights that any other does.
    trace("clip", 2);
    const likeliest = this.#kindOf(device, this.#usual(), MAX_SEQUENCE_LENGTH, {});
    const kinds = [likeliest.candidates, [[() => trace("text", 1)]]];
    await this.#memory.load(device, kinds, options, onProgress);
  }

  /** @inheritdoc */
  async plan(
    device: Device,
    size: PlanRequest,
    options: MemoryOptions = {},
  ): Promise<MemoryReport> {
    const usual = this.#usual();
    const { numFrames = usual.numFrames } = size;
    const isClip = size.task === undefined && usual.task === "T2I" && numFrames > 1;
    const request = { ...usual, ...(isClip && { task: "T2V" as const }), ...size };
    checkRequest(request, this.info);
    const { candidates } = this.#kindOf(device, request, MAX_SEQUENCE_LENGTH, {});
    return await this.#memory.report(device, candidates, options);
  }

  /** What a request that says nothing asks for. */
  #usual(): PipelineRequest {
    const { defaults, defaultTask, taskDefaults } = this.info;
    return { ...defaults, ...taskDefaults[defaultTask], task: defaultTask, prompt: "", seed: 0 };
  }

  /** Frees the device memory and closes the files. */
  [Symbol.dispose](): void {
    this.#memory[Symbol.dispose]();
    this.#components[Symbol.dispose]();
  }

  /** @inheritdoc */
  async prepare(adapters: readonly AppliedAdapter[]): Promise<void> {
    await this.#memory.adapt(adapters);
  }

  /** @inheritdoc */
  async generate(request: PipelineRequest, control: PipelineControl = {}): Promise<PipelineResult> {
    const { device } = this.#memory;
    this.#check(request);
    const startTime = performance.now();
    await this.#memory.adapt(request.adapters ?? []);
    try {
      return await this.#generate(device, request, control, startTime);
    } catch (error) {
      // What failed on the GPU may have left invalid buffers behind: the next request starts from new ones.
      const isCancelled = error instanceof DOMException && error.name === "AbortError";
      if (!isCancelled) this.#memory.drop();
      if (!(error instanceof OverflowError)) throw error;
      this.#overflows = true;
      control.onNote?.(
        "The transformer's values overflow with narrow factors: quality high computes it with f32 from now on",
      );
      return await this.generate(request, control);
    }
  }

  async #generate(
    device: Device,
    request: PipelineRequest,
    control: PipelineControl,
    startTime: number,
  ): Promise<PipelineResult> {
    const timings: Record<string, number> = { prepare: 0, encode: 0, denoise: 0, decode: 0 };
    let last = startTime;
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
    const rows = contextRows(Math.max(...tokens.map(({ length }) => length)), maxLength);
    const kind = this.#kindOf(device, request, rows, control);
    const { schedule } = kind;
    const session = await this.#memory.sessionFor(kind.key, kind.candidates, kind.words, control);
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
      encoded: this.#encoded,
      control,
      lap,
    };
    await session.programs.run(requestStages(work, result), control);
    return { ...result, timings };
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

  /** The programs that requests of this kind share, and their schedule. */
  #kindOf(
    { target }: Device,
    request: PipelineRequest,
    contextTokens: number,
    control: PipelineControl,
  ) {
    const { numInferenceSteps, strength, width, height, numFrames } = request;
    const start = strength === undefined ? 0 : strengthStart(numInferenceSteps, strength, "steps");
    const schedule = this.#components.scheduler.setTimesteps(numInferenceSteps, { start });
    const shape = this.#shapeOf(request, contextTokens, control);
    const passes = shape.guidance === "batched"
      ? ["batched", "sequential"] as const
      : [shape.guidance];
    const candidates: Candidates<WanSession> = [
      passes.map((guidance) => () =>
        new WanSession(this.#components, { ...shape, guidance }, schedule, target)
      ),
    ];
    const frames = numFrames === 1 ? "1 frame" : `${numFrames} frames`;
    const words = {
      subject: `make ${width}x${height} with ${frames}`,
      advice: "ask for a smaller size or fewer frames",
    };
    return { key: JSON.stringify([shape, numInferenceSteps, start]), schedule, candidates, words };
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
      ...(request.quality === "high" && !this.#overflows && { operands: "int8" as const }),
    };
  }
}
