/** The denoising loop: every step is the transformer, once for each prompt, guidance, and the solver. */
import {
  type Call,
  clearing,
  copyTo,
  type DeviceTensor,
  elementCount,
  f32,
  type Inputs,
  type Shape,
  writing,
} from "../../runtime/mod.ts";
import type { Stage } from "../memory/session.ts";
import { BrownianPath } from "../schedulers/brownian.ts";
import { readsNoise, type Schedule } from "../schedulers/mod.ts";
import { Solver, splitOutputs, type StepRange } from "../schedulers/solver.ts";
import { isSteered } from "./control_units.ts";
import { previewSteps, type SampleDecoder, tracePreviews } from "./decoding.ts";
import type { CommonShape } from "./family.ts";
import type { CombinedGuidance, Guidance } from "./guidance.ts";
import { type Noise, traceKept } from "./inpainting.ts";
import { isFinite, OverflowError } from "./non_finite.ts";
import { Passes, type PassOptions } from "./passes.ts";
import { reusingSteps } from "./reused_steps.ts";
import type { Work } from "./work.ts";

interface DenoiserOptions<Own extends Inputs> extends PassOptions<Own> {
  readonly schedule: Schedule;
  /** The noisy latents as the transformer takes them, [1, tokens, features]; each step overwrites them. */
  readonly sample: DeviceTensor;
  /** What a step writes, as u32; its index by default. */
  readonly step?: { readonly shape: Shape; values(i: number): ArrayLike<number> };
  /** Noise for samplers that add it. */
  readonly noise: Noise;
  /** Latents of the first image without noise, of the shape of the sample, where a request is masked. */
  readonly kept?: DeviceTensor | undefined;
  readonly guidance?: CombinedGuidance | undefined;
  readonly preview: SampleDecoder;
  readonly range?: StepRange;
  /** Steps of other loops of the same request, which come before and after. */
  readonly others?: { readonly before: number; readonly after: number };
  readonly history?: readonly DeviceTensor[];
}

export interface Denoiser {
  /**
   * All steps, or those in the range; `noise` is what the sample began with. `reused` steps use earlier outputs; which ones
   * follows from the quality and the timesteps by default.
   */
  run(
    work: Work,
    guidance: Guidance,
    draw: () => Float32Array,
    options?: { readonly noise?: Float32Array; readonly reused?: readonly number[] | undefined },
  ): Promise<void>;
}

export function traceDenoiser<Own extends Inputs>(
  stage: Stage,
  { operands, hasPreviews, control }: CommonShape,
  options: DenoiserOptions<Own>,
): Denoiser {
  const { sample, schedule, range, history } = options;
  const step = stage.tensor("step", options.step?.shape ?? [1], "u32");
  const passes = new Passes(stage, { operands, control }, { sample, step }, options);
  const combination = options.guidance && traceCombined(stage, options.guidance, passes, sample);
  const outputs = combination ? [combination.velocity] : passes.outputs;
  const added = schedule.needsNoise ? traceNoise(stage, options.noise) : undefined;
  const state = { sample, outputs, history, noise: added?.outputs };
  const solver = new Solver(stage, schedule, state, range);
  const kept = options.kept &&
    traceKept(stage, { sample, kept: options.kept, noise: options.noise });
  const previews = hasPreviews ? tracePreviews(stage, sample, outputs, options.preview) : undefined;
  stage.willRead(sample);

  /** Which passes step `i` needs; of none if its velocity is zero. */
  const neededPasses = (i: number, { weights, combined }: Guidance): boolean[] => {
    if (combined?.weight(i) === 0) return passes.outputs.map(() => false);
    const own = [...weights(i)];
    return passes.outputs.map(({ shape }) =>
      own.splice(0, shape[0]!).some((weight) => weight !== 0)
    );
  };

  const predicting = (
    i: number,
    isFirst: boolean,
    { combined }: Guidance,
    isNeeded: readonly boolean[],
    isSteered: boolean,
  ): Call[] => {
    if (combined?.weight(i) === 0) return [clearing([combination!.velocity])];
    const calls = passes.calls(isNeeded, isSteered);
    if (combined) {
      const { guided, unguided } = combination!;
      const isGuided = isNeeded.every(Boolean);
      return [
        ...calls,
        isGuided ? guided.call({ numbers: combined.settings(i) }) : unguided.call({}),
      ];
    }
    // The solver reads what counts nothing, too.
    const others = passes.outputs.filter((_, k) => !isNeeded[k]);
    return isFirst ? [clearing(others), ...calls] : calls;
  };

  const checkFirstStep = (values: Float32Array, work: Work): void => {
    if (isFinite(values)) return;
    // Factors of f16 are counted where they are rounded.
    throw operands === "int8" ? new OverflowError() : work.nonFinite("the transformer");
  };

  return {
    async run(work, guidance, draw, { noise, reused: own } = {}) {
      const totalSteps = schedule.timesteps.length;
      const { before, after } = options.others ?? { before: 0, after: 0 };
      const allSteps = before + totalSteps + after;
      const [first, end] = range ?? [0, totalSteps];
      const { attempt } = work;
      if (!passes.takesPart) return;
      if (attempt.denoised) {
        return after > 0 ? undefined : await work.run([writing(sample, attempt.denoised)]);
      }
      // Velocities belong to flows, which have no signal at a sigma of 1.
      const isReusing = work.request.quality === "high" && schedule.signal(1) === 0;
      const found = own ?? (isReusing ? reusingSteps(schedule.timesteps) : []);
      const reused = await passes.agreedSteps(found, totalSteps, work.control);
      if (kept) await work.run([kept.begin(work.request, noise!)]);
      const path = schedule.isBrownian
        ? new BrownianPath(work.request.seed, elementCount(options.noise.shape), schedule.sigmas)
        : undefined;
      const shown = previews
        ? previewSteps(allSteps, work.control.previews ?? 0).map((i) => i - before)
        : [];
      let computed: readonly boolean[] | undefined;
      for (let i = first; i < end; i++) {
        const isNeeded = neededPasses(i, guidance);
        const isReused = reused.includes(i) &&
          computed?.every((was, k) => was === isNeeded[k]);
        if (!isReused) computed = isNeeded;
        const weights = guidance.combined ? [guidance.combined.weight(i)] : guidance.weights(i);
        const calls = [
          { write: () => before + i === 0 && work.progress("denoise", 0, allSteps) },
          writing(step, options.step?.values(i) ?? [i]),
          ...isReused ? [] : predicting(
            i,
            i === first,
            guidance,
            isNeeded,
            isSteered(work.request, i, totalSteps),
          ),
        ];
        if (added && readsNoise(schedule.step(i))) {
          const noise = path?.noise(schedule.sigmas[i]!, schedule.sigmas[i + 1]!) ?? draw();
          calls.push(added.call({ noise }));
        }
        const preview = shown.includes(i) ? previews : undefined;
        if (preview) calls.push(preview.take(schedule.denoised, schedule.sigmas[i]!, weights));
        calls.push(solver.call(i, weights));
        const isLast = i === totalSteps - 1;
        const endsAll = isLast && after === 0;
        if (kept) {
          const sigma = isLast ? 0 : schedule.sigmas[i + 1]!;
          calls.push(kept.call(schedule.signal(sigma), sigma));
        }
        await work.run(calls, {
          isLast: i === end - 1,
          // What is wrong after the first step is wrong to the end. What the last one gives need not be made again where
          // the decoder turns out to have factors beyond f16.
          reads: i === first || (endsAll && stage.isRounding) ? [sample] : [],
          finished: ([values]) => {
            if (values && i === first) checkFirstStep(values, work);
            if (values && endsAll) attempt.denoised = values;
            work.progress("denoise", before + i + 1, allSteps);
          },
        });
        await preview?.show(work, shown.indexOf(i));
      }
    },
  };
}

function traceNoise(stage: Stage, { shape, arrange }: DenoiserOptions<Inputs>["noise"]) {
  return stage.program("noise", { noise: f32(...shape) }, ({ noise }) => arrange(noise));
}

function traceCombined(
  stage: Stage,
  { settings, inputs, trace }: CombinedGuidance,
  { outputs }: Pick<Passes<Inputs>, "outputs">,
  sample: DeviceTensor,
) {
  const velocity = stage.tensor("guided", sample.shape);
  const guided = stage.program(
    "guide",
    { outputs, numbers: f32(1, 1, settings), given: [{ ...inputs, sample }] },
    ({ outputs, numbers, given }) => {
      copyTo(trace(splitOutputs(outputs), numbers, given[0]!), velocity);
    },
  );
  // No pass for the negative prompt may have run before it.
  const unguided = stage.program(
    "unguided",
    { outputs: outputs.slice(0, 1) },
    ({ outputs }) => copyTo(splitOutputs(outputs)[0]!, velocity),
  );
  return { guided, unguided, velocity };
}
