/**
 * Pictures with Z-Image: from text, and from another picture with noise added.
 *
 * Source: diffusers `ZImagePipeline` and `ZImageImg2ImgPipeline`.
 */
import { elementCount, type Target } from "../../../runtime/mod.ts";
import { tileSides } from "../../autoencoders/tiling.ts";
import type { ModelFiles } from "../../checkpoints/model_files.ts";
import type { Candidates } from "../../memory/model_memory.ts";
import { TorchGenerator } from "../../noise.ts";
import type { PipelineRequest } from "../../pipeline.ts";
import { strengthStart } from "../../schedulers/mod.ts";
import { qwen3ChatPrompt } from "../../tokenizers/mod.ts";
import { checkPictures } from "../check_request.ts";
import {
  type CommonShape,
  FamilyPipeline,
  type PromptSizes,
  type RequestKind,
} from "../family_pipeline.ts";
import type { RequestWork, Results } from "../request_work.ts";
import { openZImageComponents, type ZImageComponents } from "./components.ts";
import { PATCH_SIDE } from "./config.ts";
import { zImageInfo } from "./defaults.ts";
import { ORIGINAL_Z_IMAGE } from "./layouts.ts";
import { paddedCount, tokenCount, type TokenGrid } from "./positions.ts";
import { encodeSteps, pictureStages, requestStages } from "./runs.ts";
import { zImageSchedule } from "./schedule.ts";
import { ZImageSession } from "./session.ts";

/** Opens a Z-Image pipeline, to which the files belong from then on; nothing is on the device yet. */
export async function openZImagePipeline(files: ModelFiles): Promise<ZImagePipeline> {
  return new ZImagePipeline(await openZImageComponents(files), files.className);
}

/** See the file comment. */
export class ZImagePipeline extends FamilyPipeline<ZImageComponents, ZImageSession> {
  /** Use {@linkcode openZImagePipeline}. */
  constructor(components: ZImageComponents, className: string) {
    super(components, className, {
      transformer: { family: "Z-Image", layouts: [ORIGINAL_Z_IMAGE] },
      textEncoder: "Qwen3",
      info: zImageInfo,
    });
  }

  protected override traceSmallest(target: Target): Candidates<ZImageSession> {
    const schedule = zImageSchedule(this.components.scheduler, 1, 1);
    const trace = (startsFromPicture: boolean) =>
      new ZImageSession(
        this.components,
        {
          grid: { rows: 1, columns: 1 },
          textTokens: [paddedCount(1)],
          startsFromPicture,
          limitsGuidance: false,
          hasPreviews: false,
          tileSide: PATCH_SIDE,
        },
        schedule,
        target,
      );
    // One that begins with a picture uses all weights that any other does.
    trace(true);
    return [[() => trace(false)]];
  }

  protected override check(request: PipelineRequest): void {
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
    const { axes_lens: [, rows, columns] } = this.components.transformer.config;
    const grid = this.#gridOf(request);
    if (grid.rows <= rows! && grid.columns <= columns!) return;
    const { sizeMultiple } = this.info;
    throw new RangeError(
      `Cannot make a picture of ${request.width}x${request.height}: the model has positions for ${
        columns! * sizeMultiple
      }x${rows! * sizeMultiple}; ask for a smaller one`,
    );
  }

  #gridOf({ width, height }: PipelineRequest): TokenGrid {
    const { sizeMultiple } = this.info;
    return { rows: height / sizeMultiple, columns: width / sizeMultiple };
  }

  protected override planned(request: PipelineRequest): PipelineRequest {
    this.#checkPositions(request);
    return request;
  }

  protected override promptsOf(
    { prompt, negativePrompt, guidanceScale }: PipelineRequest,
  ): string[] {
    return (guidanceScale > 0 ? [prompt, negativePrompt] : [prompt])
      .map((text) => qwen3ChatPrompt(text, { hasThinkBlock: false }));
  }

  protected override kindOf(
    target: Target,
    request: PipelineRequest,
    { lengths }: PromptSizes,
    common: CommonShape,
  ): RequestKind<ZImageSession> {
    const { numInferenceSteps: steps, strength = 1, width, height } = request;
    const grid = this.#gridOf(request);
    const startsFromPicture = request.task === "TI2I";
    const start = startsFromPicture ? strengthStart(steps, strength, "start") : 0;
    const schedule = zImageSchedule(this.components.scheduler, tokenCount(grid), steps, start);
    const shape = {
      grid,
      textTokens: lengths.map(paddedCount),
      startsFromPicture,
      limitsGuidance: lengths.length > 1 && request.guidanceLimit !== undefined,
      ...common,
    };
    // With the autoencoder in one piece, or else in as large tiles as there is memory for.
    const sides = tileSides(grid.rows * PATCH_SIDE, grid.columns * PATCH_SIDE);
    const candidates: Candidates<ZImageSession> = sides.map((tileSide) => [
      () => new ZImageSession(this.components, { ...shape, tileSide }, schedule, target),
    ]);
    const words = { subject: `make ${width}x${height}`, advice: "ask for a smaller size" };
    return { key: JSON.stringify([shape, steps, start]), schedule, candidates, words };
  }

  protected override async run(
    given: RequestWork<ZImageComponents, ZImageSession>,
    result: Results,
  ): Promise<void> {
    const { session, request: { seed, pictures = [] }, control, lap } = given;
    const generator = new TorchGenerator(seed);
    // The noise of a given picture's latents comes first.
    const draw = () => generator.randn(elementCount(session.tensors.latents.shape));
    const momentNoise = pictures.length > 0 ? draw() : new Float32Array();
    const work = { ...given, momentNoise, noise: draw() };
    lap("prepare");
    control.onProgress?.({ stage: "encode", step: 0, totalSteps: encodeSteps(session) });
    await session.programs.run(pictureStages(work), control);
    // Prompts, denoising and decoding in one sequence, so that the GPU never waits for this thread.
    await session.programs.run(requestStages(work, result), control);
  }
}
