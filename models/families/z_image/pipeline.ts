/**
 * Pictures with Z-Image: from text, and from another picture with noise added.
 *
 * Source: diffusers `ZImagePipeline` and `ZImageImg2ImgPipeline`.
 */
import { type Device, elementCount } from "../../../runtime/mod.ts";
import { tileSides } from "../../autoencoders/tiling.ts";
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
  PlanRequest,
} from "../../pipeline.ts";
import { PromptCache } from "../../prompt_cache.ts";
import { strengthStart } from "../../schedulers/mod.ts";
import { qwen3ChatPrompt } from "../../tokenizers/mod.ts";
import { checkPictures, checkRequest } from "../check_request.ts";
import type { Results } from "../picture_runs.ts";
import { componentsOf, openZImageComponents, type ZImageComponents } from "./components.ts";
import { PATCH_SIDE } from "./config.ts";
import { zImageInfo } from "./defaults.ts";
import { ORIGINAL_Z_IMAGE } from "./layouts.ts";
import { paddedCount, tokenCount } from "./positions.ts";
import { encodeSteps, pictureStages, requestStages, type Work } from "./runs.ts";
import { zImageSchedule } from "./schedule.ts";
import { ZImageSession } from "./session.ts";

/** Prompt tokens, those of the chat template included; longer prompts are cut. */
const MAX_SEQUENCE_LENGTH = 512;

/** Opens a Z-Image pipeline, to which the files belong from then on; nothing is on the device yet. */
export async function openZImagePipeline(files: ModelFiles): Promise<ZImagePipeline> {
  return new ZImagePipeline(await openZImageComponents(files), files.className);
}

/** See the file comment. */
export class ZImagePipeline implements Pipeline {
  readonly info: PipelineInfo;
  readonly #components: ZImageComponents;
  readonly #memory: ModelMemory<ZImageSession>;
  readonly #encoded = new PromptCache();
  /** Whether narrow factors have given values that are not numbers. */
  #overflows = false;

  /** Use {@linkcode openZImagePipeline}. */
  constructor(components: ZImageComponents, className: string) {
    this.#components = components;
    this.#memory = new ModelMemory(componentsOf(components), [
      new AdaptedComponent(components.transformer.weights, {
        target: "transformer",
        family: "Z-Image",
        layouts: [ORIGINAL_Z_IMAGE],
      }),
      new AdaptedComponent(components.textEncoder.weights, {
        target: "text_encoder",
        family: "Qwen3",
        layouts: [],
      }),
    ]);
    this.info = zImageInfo(components, className, this.#memory.adaptable);
  }

  /** Declares the weights that requests can need, and uploads those that the likeliest request leaves there. */
  async load(
    device: Device,
    onProgress?: (fraction: number) => void,
    options: MemoryOptions = {},
  ): Promise<void> {
    const schedule = zImageSchedule(this.#components.scheduler, 1, 1);
    const trace = (startsFromPicture: boolean) =>
      new ZImageSession(
        this.#components,
        {
          grid: { rows: 1, columns: 1 },
          textTokens: [paddedCount(1)],
          startsFromPicture,
          limitsGuidance: false,
          hasPreviews: false,
          tileSide: PATCH_SIDE,
        },
        schedule,
        device.target,
      );
    // One that begins with a picture uses all weights that any other does.
    trace(true);
    const likeliest = this.#kindOf(device, this.#usual(), this.#longest(this.#usual()), {});
    const kinds = [likeliest.candidates, [[() => trace(false)]]];
    await this.#memory.load(device, kinds, options, onProgress);
  }

  /** @inheritdoc */
  async plan(
    device: Device,
    size: PlanRequest,
    options: MemoryOptions = {},
  ): Promise<MemoryReport> {
    const request = { ...this.#usual(), ...size };
    checkRequest(request, this.info);
    this.#checkPositions(request);
    const { candidates } = this.#kindOf(device, request, this.#longest(request), {});
    return await this.#memory.report(device, candidates, options);
  }

  /** What a request that says nothing asks for. */
  #usual(): PipelineRequest {
    const { defaults, defaultTask } = this.info;
    return { ...defaults, task: defaultTask, prompt: "", seed: 0 };
  }

  /** Tokens of the longest prompts. */
  #longest({ guidanceScale }: PipelineRequest): number[] {
    return new Array<number>(guidanceScale > 0 ? 2 : 1).fill(MAX_SEQUENCE_LENGTH);
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

    // 1. Prompts to tokens, the seed to noise: first that of a given picture's latents.
    const { prompt, negativePrompt, guidanceScale, pictures = [] } = request;
    const { tokenizer } = this.#components;
    const maxLength = request.maxSequenceLength ?? MAX_SEQUENCE_LENGTH;
    const prompts = guidanceScale > 0 ? [prompt, negativePrompt] : [prompt];
    const tokens = prompts.map((text) =>
      tokenizer.encode(qwen3ChatPrompt(text, { hasThinkBlock: false }), { maxLength })
    );
    const generator = new TorchGenerator(request.seed);

    // 2. Programs for this kind of request.
    const kind = this.#kindOf(device, request, tokens.map(({ length }) => length), control);
    const { schedule } = kind;
    const session = await this.#memory.sessionFor(kind.key, kind.candidates, kind.words, control);
    const draw = () => generator.randn(elementCount(session.tensors.latents.shape));
    const momentNoise = pictures.length > 0 ? draw() : new Float32Array();
    const work: Work = {
      components: this.#components,
      session,
      request,
      schedule,
      tokens,
      momentNoise,
      noise: draw(),
      encoded: this.#encoded,
      control,
      lap,
    };
    lap("prepare");

    // 3. A given picture, and then prompts, denoising and decoding in one sequence, so that the GPU never waits.
    control.onProgress?.({ stage: "encode", step: 0, totalSteps: encodeSteps(session) });
    await session.programs.run(pictureStages(work), control);
    const result: Results = { latents: new Float32Array(), frames: [] };
    await session.programs.run(requestStages(work, result), control);
    return { ...result, timings };
  }

  #gridOf({ width, height }: PipelineRequest): { rows: number; columns: number } {
    const { sizeMultiple } = this.info;
    return { rows: height / sizeMultiple, columns: width / sizeMultiple };
  }

  #check(request: PipelineRequest): void {
    checkRequest(request, this.info);
    checkPictures(request, this.info, request.task === "TI2I");
    const { guidanceLimit = 1, guidanceEnd = 1 } = request;
    if (!(guidanceLimit > 0 && guidanceLimit < Infinity)) {
      throw new RangeError(
        `Cannot guide with a guidanceLimit of ${guidanceLimit}: it must be above 0; leave it out for no limit`,
      );
    }
    if (!(guidanceEnd >= 0)) {
      throw new RangeError(
        `Cannot guide with a guidanceEnd of ${guidanceEnd}: it must be a share of the way, from 0 to 1`,
      );
    }
    this.#checkPositions(request);
  }

  #checkPositions(request: PipelineRequest): void {
    const { axes_lens: [, rows, columns] } = this.#components.transformer.config;
    const grid = this.#gridOf(request);
    if (grid.rows <= rows! && grid.columns <= columns!) return;
    const { sizeMultiple } = this.info;
    throw new RangeError(
      `Cannot make a picture of ${request.width}x${request.height}: the model has positions for ${
        columns! * sizeMultiple
      }x${rows! * sizeMultiple}; ask for a smaller one`,
    );
  }

  /** The programs that requests of this kind share, and their schedule. */
  #kindOf(
    { target }: Device,
    request: PipelineRequest,
    tokens: readonly number[],
    { previews = 0 }: PipelineControl,
  ) {
    const { numInferenceSteps: steps, strength = 1, width, height } = request;
    const grid = this.#gridOf(request);
    const startsFromPicture = request.task === "TI2I";
    const start = startsFromPicture ? strengthStart(steps, strength, "start") : 0;
    const schedule = zImageSchedule(this.#components.scheduler, tokenCount(grid), steps, start);
    const shape = {
      grid,
      textTokens: tokens.map(paddedCount),
      startsFromPicture,
      limitsGuidance: tokens.length > 1 && request.guidanceLimit !== undefined,
      hasPreviews: previews > 0,
      ...(request.quality === "high" && !this.#overflows && { operands: "int8" as const }),
    };
    // With the autoencoder in one piece, or else in as large tiles as there is memory for.
    const sides = tileSides(grid.rows * PATCH_SIDE, grid.columns * PATCH_SIDE);
    const candidates: Candidates<ZImageSession> = sides.map((tileSide) => [
      () => new ZImageSession(this.#components, { ...shape, tileSide }, schedule, target),
    ]);
    const words = { subject: `make ${width}x${height}`, advice: "ask for a smaller size" };
    return { key: JSON.stringify([shape, steps, start]), schedule, candidates, words };
  }
}
