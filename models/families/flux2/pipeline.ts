/**
 * Pictures with FLUX.2 klein: from text, and from other pictures as a text says.
 *
 * Source: diffusers `Flux2KleinPipeline`.
 */
import { type Device, elementCount } from "../../../runtime/mod.ts";
import { AdaptedComponent } from "../../adapters/adapted_component.ts";
import type { AppliedAdapter } from "../../adapters/types.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { tileSides } from "../../autoencoders/tiling.ts";
import type { ModelFiles } from "../../checkpoints/model_files.ts";
import type { MemoryReport } from "../../memory/memory_report.ts";
import { type Candidates, type MemoryOptions, ModelMemory } from "../../memory/model_memory.ts";
import { TorchGenerator } from "../../noise.ts";
import { OverflowError } from "../../non_finite.ts";
import type {
  GivenPicture,
  Pipeline,
  PipelineControl,
  PipelineInfo,
  PipelineRequest,
  PipelineResult,
  PlanRequest,
} from "../../pipeline.ts";
import { PromptCache } from "../../prompt_cache.ts";
import { qwen3ChatPrompt } from "../../tokenizers/qwen3_chat.ts";
import { checkPictures, checkRequest } from "../check_request.ts";
import type { Results } from "../picture_runs.ts";
import { componentsOf, type Flux2Components, openFlux2Components } from "./components.ts";
import { flux2Info } from "./defaults.ts";
import { ORIGINAL_FLUX2 } from "./layouts.ts";
import { tokenCount, type TokenGrid } from "./positions.ts";
import { givenStages, requestStages, type Work } from "./runs.ts";
import { flux2Schedule } from "./schedule.ts";
import { Flux2Session } from "./session.ts";
import type { SessionShape } from "./session_tensors.ts";

/** Tokens that prompts are padded to in the reference; longer ones are cut. */
const MAX_SEQUENCE_LENGTH = 512;

/** Opens a FLUX.2 klein pipeline, to which the files belong from then on; nothing is on the device yet. */
export async function openFlux2Pipeline(files: ModelFiles): Promise<Flux2Pipeline> {
  return new Flux2Pipeline(await openFlux2Components(files), files.className);
}

/** See the file comment. */
export class Flux2Pipeline implements Pipeline {
  readonly info: PipelineInfo;
  readonly #components: Flux2Components;
  readonly #memory: ModelMemory<Flux2Session>;
  readonly #encoded = new PromptCache();
  /** Whether the transformer's values have been too large for narrow factors. */
  #overflows = false;

  /** Use {@linkcode openFlux2Pipeline}. */
  constructor(components: Flux2Components, className: string) {
    this.#components = components;
    this.#memory = new ModelMemory(componentsOf(components), [
      new AdaptedComponent(components.transformer.weights, {
        target: "transformer",
        family: "FLUX.2",
        layouts: [ORIGINAL_FLUX2],
      }),
      new AdaptedComponent(components.textEncoder.weights, {
        target: "text_encoder",
        family: "Qwen3",
        layouts: [],
      }),
    ]);
    this.info = flux2Info(components, className, this.#memory.adaptable);
  }

  /** Declares the weights that requests can need, and uploads those that the likeliest request leaves there. */
  async load(
    device: Device,
    onProgress?: (fraction: number) => void,
    options: MemoryOptions = {},
  ): Promise<void> {
    const one = { rows: 1, columns: 1 };
    const smallest = { grid: one, textTokens: 1, tileSide: PACKED_SIDE, hasPreviews: false };
    const schedule = flux2Schedule(this.#components.scheduler, 1, 1);
    const trace = (references: readonly TokenGrid[]) =>
      new Flux2Session(
        this.#components,
        { ...smallest, references, passes: 1 },
        schedule,
        device.target,
      );
    // One that begins with a picture uses all weights that any other does.
    trace([one]);
    const likeliest = this.#kindOf(device, this.#usual(), MAX_SEQUENCE_LENGTH, {});
    await this.#memory.load(
      device,
      [likeliest.candidates, [[() => trace([])]]],
      options,
      onProgress,
    );
  }

  /** @inheritdoc */
  async plan(
    device: Device,
    size: PlanRequest,
    options: MemoryOptions = {},
  ): Promise<MemoryReport> {
    const usual = { ...this.#usual(), ...size };
    checkRequest(usual, this.info);
    const { width, height } = usual;
    const isEdit = usual.task === "TI2I";
    const pictures = isEdit ? [{ width, height, data: new Uint8Array() }] : [];
    const { candidates } = this.#kindOf(device, { ...usual, pictures }, MAX_SEQUENCE_LENGTH, {});
    return await this.#memory.report(device, candidates, options);
  }

  /** What a request that says nothing asks for. */
  #usual(): PipelineRequest {
    const { defaults, defaultTask } = this.info;
    return { ...defaults, task: defaultTask, prompt: "", seed: 0 };
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
    checkRequest(request, this.info);
    checkPictures(request, this.info, request.task === "TI2I");
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
    const { prompt, negativePrompt, pictures = [] } = request;
    const prompts = this.#isGuided(request) ? [prompt, negativePrompt] : [prompt];
    const maxLength = request.maxSequenceLength ?? MAX_SEQUENCE_LENGTH;
    const tokens = prompts.map((text) =>
      this.#components.tokenizer.encode(qwen3ChatPrompt(text, { hasThinkBlock: true }), {
        maxLength,
      })
    );
    const generator = new TorchGenerator(request.seed);

    // 2. Programs for this kind of request.
    const kind = this.#kindOf(device, request, maxLength, control);
    const session = await this.#memory.sessionFor(kind.key, kind.candidates, kind.words, control);
    const work: Work = {
      components: this.#components,
      session,
      request,
      schedule: kind.schedule,
      tokens,
      noise: generator.randn(elementCount(session.tensors.latents.shape)),
      encoded: this.#encoded,
      control,
      lap,
    };
    lap("prepare");

    // 3. Given pictures, whose tiles are put together on this side.
    control.onProgress?.({ stage: "encode", step: 0, totalSteps: pictures.length + 1 });
    const moments: Float32Array[] = [];
    await session.programs.run(givenStages(work, moments), control);
    lap("encode");

    // 4. Text, denoising and decoding in one sequence, so that the GPU never waits for this thread.
    const result: Results = { latents: new Float32Array(), frames: [] };
    await session.programs.run(requestStages(work, moments, result), control);
    return { ...result, timings };
  }

  /** Distilled models make their pictures without guidance, whatever is asked for. */
  #isGuided({ guidanceScale }: PipelineRequest): boolean {
    return guidanceScale > 1 && !this.#components.pipeline.is_distilled;
  }

  #gridOf({ width, height }: Pick<GivenPicture, "width" | "height">): TokenGrid {
    const { sizeMultiple } = this.info;
    return { rows: height / sizeMultiple, columns: width / sizeMultiple };
  }

  /** The programs that requests of this kind share, and their schedule. */
  #kindOf(
    { target }: Device,
    request: PipelineRequest,
    textTokens: number,
    { previews = 0 }: PipelineControl,
  ) {
    const { width, height, numInferenceSteps, pictures = [] } = request;
    const grid = this.#gridOf(request);
    const shape: Omit<SessionShape, "tileSide"> = {
      grid,
      references: pictures.map((picture) => this.#gridOf(picture)),
      textTokens,
      passes: this.#isGuided(request) ? 2 : 1,
      hasPreviews: previews > 0,
      ...(request.quality === "high" && !this.#overflows && { operands: "int8" }),
    };
    const schedule = flux2Schedule(
      this.#components.scheduler,
      tokenCount(grid),
      numInferenceSteps,
    );
    const grids = [grid, ...shape.references];
    // The autoencoder in one piece, or else in as large tiles as there is memory for.
    const sides = tileSides(
      Math.max(...grids.map(({ rows }) => rows)) * PACKED_SIDE,
      Math.max(...grids.map(({ columns }) => columns)) * PACKED_SIDE,
    );
    const candidates: Candidates<Flux2Session> = sides.map((tileSide) => [
      () => new Flux2Session(this.#components, { ...shape, tileSide }, schedule, target),
    ]);
    const count = pictures.length;
    const from = count === 0 ? "" : count === 1 ? " from a picture" : ` from ${count} pictures`;
    const words = {
      subject: `make ${width}x${height}${from}`,
      advice: `ask for a smaller size${count > 0 ? " or bring fewer pictures" : ""}`,
    };
    return { key: JSON.stringify([shape, numInferenceSteps]), schedule, candidates, words };
  }
}
