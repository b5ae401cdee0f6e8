/**
 * Pictures with FLUX.2 klein: from text, and from other pictures as a text says.
 *
 * Source: diffusers `Flux2KleinPipeline`.
 */
import { elementCount, type Target } from "../../../runtime/mod.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import { tileSides } from "../../autoencoders/tiling.ts";
import type { ModelFiles } from "../../checkpoints/model_files.ts";
import type { Candidates } from "../../memory/model_memory.ts";
import { TorchGenerator } from "../../noise.ts";
import type { GivenPicture, PipelineRequest } from "../../pipeline.ts";
import { qwen3ChatPrompt } from "../../tokenizers/mod.ts";
import { checkPictures } from "../check_request.ts";
import {
  type CommonShape,
  FamilyPipeline,
  type PromptSizes,
  type RequestKind,
} from "../family_pipeline.ts";
import type { RequestWork, Results } from "../request_work.ts";
import { type Flux2Components, openFlux2Components } from "./components.ts";
import { flux2Info } from "./defaults.ts";
import { ORIGINAL_FLUX2 } from "./layouts.ts";
import { tokenCount, type TokenGrid } from "./positions.ts";
import { givenStages, requestStages } from "./runs.ts";
import { flux2Schedule } from "./schedule.ts";
import { Flux2Session } from "./session.ts";
import type { SessionShape } from "./session_tensors.ts";

/** Opens a FLUX.2 klein pipeline, to which the files belong from then on; nothing is on the device yet. */
export async function openFlux2Pipeline(files: ModelFiles): Promise<Flux2Pipeline> {
  return new Flux2Pipeline(await openFlux2Components(files), files.className);
}

/** See the file comment. */
export class Flux2Pipeline extends FamilyPipeline<Flux2Components, Flux2Session> {
  /** Use {@linkcode openFlux2Pipeline}. */
  constructor(components: Flux2Components, className: string) {
    super(components, className, {
      transformer: { family: "FLUX.2", layouts: [ORIGINAL_FLUX2] },
      textEncoder: "Qwen3",
      info: flux2Info,
    });
  }

  protected override traceSmallest(target: Target): Candidates<Flux2Session> {
    const one = { rows: 1, columns: 1 };
    const smallest = { grid: one, textTokens: 1, tileSide: PACKED_SIDE, hasPreviews: false };
    const schedule = flux2Schedule(this.components.scheduler, 1, 1);
    const trace = (references: readonly TokenGrid[]) =>
      new Flux2Session(
        this.components,
        { ...smallest, references, passes: 1 },
        schedule,
        target,
      );
    // One that begins with a picture uses all weights that any other does.
    trace([one]);
    return [[() => trace([])]];
  }

  protected override check(request: PipelineRequest): void {
    checkPictures(request, this.info, request.task === "TI2I");
  }

  protected override planned(request: PipelineRequest): PipelineRequest {
    const { width, height } = request;
    if (request.task !== "TI2I") return request;
    return { ...request, pictures: [{ width, height, data: new Uint8Array() }] };
  }

  protected override promptsOf(request: PipelineRequest): string[] {
    const { prompt, negativePrompt } = request;
    return (this.#isGuided(request) ? [prompt, negativePrompt] : [prompt])
      .map((text) => qwen3ChatPrompt(text, { hasThinkBlock: true }));
  }

  /** Distilled models make their pictures without guidance, whatever is asked for. */
  #isGuided({ guidanceScale }: PipelineRequest): boolean {
    return guidanceScale > 1 && !this.components.pipeline.is_distilled;
  }

  protected override kindOf(
    target: Target,
    request: PipelineRequest,
    { maxLength }: PromptSizes,
    common: CommonShape,
  ): RequestKind<Flux2Session> {
    const { width, height, numInferenceSteps, pictures = [] } = request;
    const grid = this.#gridOf(request);
    const shape: Omit<SessionShape, "tileSide"> = {
      grid,
      references: pictures.map((picture) => this.#gridOf(picture)),
      textTokens: maxLength,
      passes: this.#isGuided(request) ? 2 : 1,
      ...common,
    };
    const schedule = flux2Schedule(
      this.components.scheduler,
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
      () => new Flux2Session(this.components, { ...shape, tileSide }, schedule, target),
    ]);
    const count = pictures.length;
    const from = count === 0 ? "" : count === 1 ? " from a picture" : ` from ${count} pictures`;
    const words = {
      subject: `make ${width}x${height}${from}`,
      advice: `ask for a smaller size${count > 0 ? " or bring fewer pictures" : ""}`,
    };
    return { key: JSON.stringify([shape, numInferenceSteps]), schedule, candidates, words };
  }

  #gridOf({ width, height }: Pick<GivenPicture, "width" | "height">): TokenGrid {
    const { sizeMultiple } = this.info;
    return { rows: height / sizeMultiple, columns: width / sizeMultiple };
  }

  protected override async run(
    given: RequestWork<Flux2Components, Flux2Session>,
    result: Results,
  ): Promise<void> {
    const { session: { tensors, programs }, request: { seed, pictures = [] }, control, lap } =
      given;
    const noise = new TorchGenerator(seed).randn(elementCount(tensors.latents.shape));
    const work = { ...given, noise };
    lap("prepare");
    control.onProgress?.({ stage: "encode", step: 0, totalSteps: pictures.length + 1 });
    // Tiles of given pictures are put together on this side.
    const moments: Float32Array[] = [];
    await programs.run(givenStages(work, moments), control);
    lap("encode");
    // Text, denoising and decoding in one sequence, so that the GPU never waits for this thread.
    await programs.run(requestStages(work, moments, result), control);
  }
}
