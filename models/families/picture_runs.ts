/** A request for one picture once everything is encoded: its steps, and then its pixels tile by tile. */
import type { Resident, Run } from "../../runtime/mod.ts";
import type { TiledCoder } from "../autoencoders/tiled_coder.ts";
import type { SessionPrograms } from "../memory/session_programs.ts";
import { checkFirstStep, explainNonFinite, isFinite } from "../non_finite.ts";
import { toUnitRange } from "../pixels.ts";
import { componentsOf, type FamilyComponents } from "./family_components.ts";
import type { CommonShape } from "./family_pipeline.ts";
import { previewSteps, type PreviewTensors } from "./previews.ts";
import type { RequestWork, Results } from "./request_work.ts";
import type { SolverGraphs } from "./solver.ts";

/** What the runs are made from. */
export type PictureWork = RequestWork<FamilyComponents, PictureSession>;

/** What a session for pictures has. */
export interface PictureSession {
  readonly shape: CommonShape;
  /**
   * With one called `preview` where pictures are shown, and one called `finish`, which writes the latents for the caller
   * and those for the decoder.
   */
  readonly programs: SessionPrograms;
  readonly tensors: PreviewTensors & {
    readonly latents: Resident;
    /** u32 [1]: the step. */
    readonly step: Resident;
  };
  readonly solver: SolverGraphs;
  readonly decoder: TiledCoder;
}

/** How the velocity of a step comes about. */
export interface StepOutputs {
  /** Programs to run, in order. */
  readonly names: readonly string[];
  /** Of the solver's outputs in the velocity. */
  readonly weights: readonly number[];
}

/**
 * All steps, and the pictures that show how far they are.
 *
 * @param outputsOf of the step at a timestep of the schedule
 * @param previewer decodes `tensors.decoded`; needed where pictures are shown
 * @throws {Error} from a run, when what was read back is no number
 */
export function* denoiseRuns(
  { components, session, request, schedule, control, lap }: PictureWork,
  outputsOf: (timestep: number) => StepOutputs,
  previewer: TiledCoder | undefined,
): Generator<Run> {
  const { programs, tensors, solver, shape } = session;
  const totalSteps = schedule.timesteps.length;
  const shown = previewer ? previewSteps(totalSteps, control.previews ?? 0) : [];
  for (let i = 0; i < totalSteps; i++) {
    const { names, weights } = outputsOf(schedule.timesteps[i]!);
    const step = solver.step(i, programs, weights);
    const preview = shown.indexOf(i);
    const isShown = preview !== -1;
    yield {
      programs: [
        ...names.map((name) => programs.get(name)),
        ...(isShown ? [programs.get("preview")] : []),
        ...step.programs,
      ],
      stage: "denoise",
      before: () => {
        tensors.step.write([i]);
        step.before();
        if (!isShown) return;
        const sigma = schedule.sigmas[i]!;
        tensors.previewWeights.write([1, ...weights.map((weight) => -sigma * weight)]);
      },
      // What is wrong after the first step is wrong to the end.
      reads: i === 0 ? [tensors.sample] : [],
      finished: ([sample]) => {
        if (sample) {
          const parts = Object.values(componentsOf(components));
          checkFirstStep(sample, shape.operands, parts, request.guidanceScale);
        }
        control.onProgress?.({ stage: "denoise", step: i + 1, totalSteps });
        if (i + 1 === totalSteps) lap("denoise");
      },
    };
    if (!isShown) continue;
    yield* previewer!.runs((name) => programs.get(name), (_, pixels) => {
      if (pixels) control.onPreview?.(toUnitRange(pixels), preview);
    });
  }
}

/**
 * The latents as the caller gets them, and then the picture.
 *
 * @param result filled on the way
 * @throws {Error} from a run, when what was read back is no number
 */
export function* pictureRuns(
  { session, components, request, control, lap }: PictureWork,
  result: Results,
): Generator<Run> {
  const { programs, tensors, decoder } = session;
  const parts = Object.values(componentsOf(components));
  const totalSteps = decoder.tileCount;
  const refuse = (stage: string, from: typeof parts) => {
    throw explainNonFinite(stage, from, request.guidanceScale);
  };
  yield {
    programs: [programs.get("finish")],
    stage: "decode",
    before: () => control.onProgress?.({ stage: "decode", step: 0, totalSteps }),
    reads: [tensors.latents],
    finished: ([latents]) => {
      result.latents = latents!;
      if (!isFinite(result.latents)) refuse("the transformer", parts);
    },
  };
  yield* decoder.runs((name) => programs.get(name), (done, pixels) => {
    control.onProgress?.({ stage: "decode", step: done, totalSteps });
    if (!pixels) return;
    if (!isFinite(pixels)) refuse("the autoencoder", [components.vae.weights]);
    const frame = toUnitRange(pixels);
    if (control.onFrame) control.onFrame(frame);
    else result.frames.push(frame);
    lap("decode");
  });
}
