/**
 * Pictures and clips with Wan: from text, from a first frame, after a given clip, and pictures changed as a text says.
 *
 * Source: diffusers `WanPipeline`, `WanImageToVideoPipeline` (with `expand_timesteps`) and `WanVideoToVideoPipeline`.
 * A change is a short clip that goes on from the picture, of which the last frame is kept, as ChronoEdit does it.
 */
import { elementCount, type Target } from "../../../runtime/mod.ts";
import type { ModelFiles } from "../../checkpoints/model_files.ts";
import type { Candidates } from "../../memory/model_memory.ts";
import { TorchGenerator } from "../../noise.ts";
import type { PipelineRequest, PipelineTask, PlanRequest } from "../../pipeline.ts";
import { cleanPrompt } from "../../prompt_cleaning.ts";
import { strengthStart } from "../../schedulers/mod.ts";
import { checkBytes, checkPictures } from "../check_request.ts";
import {
  type CommonShape,
  FamilyPipeline,
  type PromptSizes,
  type RequestKind,
} from "../family_pipeline.ts";
import type { Results } from "../request_work.ts";
import { openWanComponents, type WanComponents } from "./components.ts";
import { wanInfo } from "./defaults.ts";
import { latentFrameCount } from "./latents.ts";
import { ORIGINAL_WAN } from "./layouts.ts";
import { contextRows } from "./prompts.ts";
import { requestStages, type Work } from "./runs.ts";
import { WanSession } from "./session.ts";
import type { SessionShape } from "./session_tensors.ts";

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
export class WanPipeline extends FamilyPipeline<WanComponents, WanSession> {
  /** Use {@linkcode openWanPipeline}. */
  constructor(components: WanComponents, className: string) {
    super(components, className, {
      transformer: { family: "Wan", layouts: [ORIGINAL_WAN] },
      textEncoder: "UMT5",
      info: wanInfo,
    });
  }

  protected override traceSmallest(target: Target): Candidates<WanSession> {
    const { config } = this.components.transformer;
    const [, rows, columns] = config.patch_size;
    const smallest = {
      height: rows * 2,
      width: columns * 2,
      contextTokens: 16,
      guidance: "none" as const,
      hasPreviews: false,
    };
    const schedule = this.components.scheduler.setTimesteps(2);
    const trace = (source: SessionShape["source"], latentFrames: number) => {
      const shape = { ...smallest, source, latentFrames };
      return new WanSession(this.components, shape, schedule, target);
    };
    // One that begins with a clip uses all weights that any other does.
    trace("clip", 2);
    return [[() => trace("text", 1)]];
  }

  protected override check(request: PipelineRequest): void {
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

  protected override planned(request: PipelineRequest, size: PlanRequest): PipelineRequest {
    const isClip = size.task === undefined && request.task === "T2I" && request.numFrames > 1;
    return isClip ? { ...request, task: "T2V" } : request;
  }

  protected override promptsOf(
    { prompt, negativePrompt, guidanceScale }: PipelineRequest,
  ): string[] {
    return (guidanceScale > 1 ? [prompt, negativePrompt] : [prompt]).map(cleanPrompt);
  }

  protected override kindOf(
    target: Target,
    request: PipelineRequest,
    prompts: PromptSizes,
    common: CommonShape,
  ): RequestKind<WanSession> {
    const { numInferenceSteps, strength, width, height, numFrames } = request;
    const start = strength === undefined ? 0 : strengthStart(numInferenceSteps, strength, "steps");
    const schedule = this.components.scheduler.setTimesteps(numInferenceSteps, { start });
    const shape = this.#shapeOf(request, prompts, common);
    const passes = shape.guidance === "batched"
      ? ["batched", "sequential"] as const
      : [shape.guidance];
    const candidates: Candidates<WanSession> = [
      passes.map((guidance) => () =>
        new WanSession(this.components, { ...shape, guidance }, schedule, target)
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
    { lengths, maxLength }: PromptSizes,
    common: CommonShape,
  ): SessionShape {
    const { scale_factor_spatial: spatial, scale_factor_temporal: temporal } =
      this.components.vae.config;
    const { source, isPicture } = TASKS[request.task];
    // A change takes the shortest clip that has two latent frames.
    const pictureFrames = source === "picture" ? 1 + temporal : 1;
    return {
      latentFrames: latentFrameCount(isPicture ? pictureFrames : request.numFrames, temporal),
      height: request.height / spatial,
      width: request.width / spatial,
      contextTokens: contextRows(Math.max(...lengths), maxLength),
      guidance: request.guidanceScale > 1 ? request.guidancePasses ?? "batched" : "none",
      source,
      ...common,
    };
  }

  protected override async run(work: Work, result: Results): Promise<void> {
    const { request, session: { tensors, programs }, control, lap } = work;
    const generator = new TorchGenerator(request.seed);
    tensors.latents.write(generator.randn(elementCount(tensors.latents.shape)));
    lap("prepare");
    // Encoders, denoising and decoding in one sequence, so that the GPU never waits for this thread.
    await programs.run(requestStages(work, result), control);
  }
}
