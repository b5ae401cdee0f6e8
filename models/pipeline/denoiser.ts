/** The denoising loop: every step is the transformer, once for each prompt, guidance, and the solver. */
import {
  type Call,
  clearing,
  combine,
  copyTo,
  type DeviceTensor,
  elementCount,
  exchange,
  f32,
  type Graph,
  type Inputs,
  type InputSpec,
  type Program,
  type RunControl,
  type Shape,
  type Team,
  type Tensor,
  type Traced,
  writing,
} from "../../runtime/mod.ts";
import type { Decoder } from "../autoencoders/decoder.ts";
import type { Stage } from "../memory/session.ts";
import { teamsOf } from "../ranks.ts";
import { readsNoise, type Schedule } from "../schedulers/mod.ts";
import { Solver, splitOutputs, type StepRange } from "../schedulers/solver.ts";
import { isSteered } from "./control.ts";
import type { SampleDecoder } from "./decoding.ts";
import type { CommonShape } from "./family.ts";
import type { CombinedGuidance, Guidance } from "./guidance.ts";
import { KeptLatents } from "./inpainting.ts";
import { isFinite, OverflowError } from "./non_finite.ts";
import { toUnitRange } from "./pixels.ts";
import type { Work } from "./work.ts";

/** What the loop is made of. */
interface DenoiserOptions<Own extends Inputs> {
  readonly schedule: Schedule;
  /** The noisy latents as the transformer takes them, [1, tokens, features]; each step overwrites them. */
  readonly sample: DeviceTensor;
  /** What each pass takes beside the sample. Together the passes give an output for each prompt. */
  readonly passes: readonly Own[];
  /** What a step writes, as u32; its index when left out. */
  readonly step?: { readonly shape: Shape; values(i: number): ArrayLike<number> };
  /** The transformer: outputs of the shape of the sample, [prompts, tokens, features]. */
  predict(inputs: Traced<Own & LoopInputs>, graph: Graph, about: PassKind): Tensor;
  /** Noise for samplers that add it, as the generator draws it, and as the sample has it. */
  readonly noise: { readonly shape: Shape; arrange(noise: Tensor): Tensor };
  /** Latents of the first image without noise, of the shape of the sample, where a request is masked. */
  readonly kept?: DeviceTensor | undefined;
  /** Guidance in place of a weighted sum of the outputs. */
  readonly guidance?: CombinedGuidance | undefined;
  /** How unfinished samples are shown. */
  readonly preview: SampleDecoder;
  /** Steps that are taken with these passes; all when left out. */
  readonly range?: StepRange;
  /** Tensors of `solverHistory()`, where other denoisers take the other steps. */
  readonly history?: readonly DeviceTensor[];
}

/** Which program of a step is traced. */
interface PassKind {
  readonly pass: number;
  /** Whether a control picture steers it, where the request has one. */
  readonly isSteered: boolean;
}

/** What every pass takes. */
interface LoopInputs {
  readonly sample: DeviceTensor;
  /** What the step wrote. */
  readonly step: DeviceTensor;
}

/** A program that takes a few numbers. */
type Weighted = Program<{ readonly numbers: InputSpec }>;
type Pass = Program<Record<never, never>, Tensor>;

/** {@linkcode CombinedGuidance} on the device. */
interface TracedGuidance {
  readonly guided: Weighted;
  /** Where the prompt alone counts. */
  readonly unguided: Pass;
  /** What both programs write. */
  readonly velocity: DeviceTensor;
}

/** The denoising loop of a request. */
export class Denoiser<Own extends Inputs> {
  readonly #stage: Stage;
  readonly #options: DenoiserOptions<Own>;
  readonly #operands: CommonShape["operands"];
  readonly #step: DeviceTensor;
  /** Nothing for passes that other GPUs compute. */
  readonly #passes: readonly (Pass | undefined)[];
  /** Programs that write the passes' outputs in steps that are not steered. */
  readonly #unsteered: readonly (Pass | undefined)[] | undefined;
  /** Outputs of the passes. */
  readonly #outputs: readonly DeviceTensor[];
  /** Program that brings what each GPU computes to all. */
  readonly #share: Pass | undefined;
  /** Whether this GPU has a part in the loop. */
  readonly #takesPart: boolean;
  /** Teams of GPUs that this loop is shared with. */
  readonly #teams: readonly Team[];
  /** Guidance that is no weighted sum: in guided steps, and in others. */
  readonly #combined: TracedGuidance | undefined;
  readonly #solver: Solver;
  /** Brings fresh noise, where the sampler adds any. */
  readonly #noise: Program<{ readonly noise: InputSpec }, Tensor> | undefined;
  readonly #preview: { readonly decoder: Decoder; readonly program: Weighted } | undefined;
  /** The part of the image that a mask keeps. */
  readonly #kept: KeptLatents | undefined;

  /**
   * Traces the loop.
   *
   * @param stage that repeats as often as there are steps
   */
  constructor(
    stage: Stage,
    { operands, hasPreviews, control }: CommonShape,
    options: DenoiserOptions<Own>,
  ) {
    const { sample, schedule, guidance, range, history, kept } = options;
    const step = stage.tensor("step", options.step?.shape ?? [1], "u32");
    this.#stage = stage;
    this.#options = options;
    this.#operands = operands;
    this.#step = step;
    const { guidance: team } = stage.ranks;
    const count = options.passes.length;
    const shares = team && count > 1 ? new PassShares(team, count) : undefined;
    this.#takesPart = !team || team.rank === 0 || count > 1;
    this.#teams = teamsOf(stage.ranks).filter((other) => other !== team || count > 1);
    this.#passes = options.passes.map((own, i) =>
      shares && !shares.isOwn(i) ? undefined : stage.program(
        `pass ${i}`,
        { ...own, sample, step },
        (inputs, graph) => options.predict(inputs, graph, { pass: i, isSteered: true }),
        { operands },
      ) as Pass
    );
    this.#unsteered = control !== "window"
      ? undefined
      : this.#passes.map((pass, i) =>
        pass && stage.program(
          `unsteered pass ${i}`,
          { ...options.passes[i]!, sample, step },
          (inputs, graph) => {
            copyTo(options.predict(inputs, graph, { pass: i, isSteered: false }), pass.outputs);
          },
          { operands },
        ) as unknown as Pass
      );
    const own = this.#passes.flatMap((pass) => pass?.outputs ?? []);
    const share = shares && traceShare(stage, shares, own);
    this.#share = share as Pass | undefined;
    const others = share ? [...share.outputs] : [];
    this.#outputs = this.#passes.map((pass) => pass?.outputs ?? others.shift()!);
    let outputs = this.#outputs;
    if (guidance) {
      const velocity = stage.tensor("guided", sample.shape);
      this.#combined = traceCombined(stage, guidance, outputs, velocity);
      outputs = [velocity];
    }
    this.#noise = schedule.needsNoise ? traceNoise(stage, options.noise) : undefined;
    const noise = this.#noise?.outputs;
    this.#solver = new Solver(stage, schedule, { sample, outputs, history, noise }, range);
    this.#kept = kept && new KeptLatents(stage, { sample, kept, noise: options.noise });
    this.#preview = hasPreviews
      ? tracePreview(stage, [sample, ...outputs], options.preview)
      : undefined;
    stage.willRead(sample);
  }

  /**
   * All steps of a request, or those in the range.
   *
   * @param draw gives noise for samplers that add it
   * @param begun the noise that the sample began with, and steps that use the outputs of the step before again
   * @throws {Error} when the sample is not finite after the first step with these passes
   * @throws {OverflowError} when wider operands may help against that
   */
  async run(
    work: Work,
    guidance: Guidance,
    draw: () => Float32Array,
    { noise, reused: own = [] }: {
      readonly noise?: Float32Array;
      readonly reused?: readonly number[];
    } = {},
  ): Promise<void> {
    const { schedule, sample, step, range } = this.#options;
    const totalSteps = schedule.timesteps.length;
    const [first, end] = range ?? [0, totalSteps];
    const { attempt } = work;
    if (!this.#takesPart) return;
    if (attempt.denoised) return await work.run([writing(sample, attempt.denoised)]);
    const reused = await agreedSteps(this.#teams, own, totalSteps, work.control);
    if (this.#kept) await work.run([this.#kept.begin(work.request, noise!)]);
    const shown = this.#preview ? previewSteps(totalSteps, work.control.previews ?? 0) : [];
    for (let i = first; i < end; i++) {
      const weights = guidance.combined ? [guidance.combined.weight(i)] : guidance.weights(i);
      const calls = [
        { write: () => i === 0 && work.progress("denoise", 0, totalSteps) },
        writing(this.#step, step?.values(i) ?? [i]),
        ...i > first && reused.includes(i)
          ? []
          : this.#predicting(i, i === first, guidance, this.#passesOf(i, work)),
      ];
      if (this.#noise && readsNoise(schedule.step(i))) {
        calls.push(this.#noise.call({ noise: draw() }));
      }
      const isShown = shown.includes(i);
      const isLast = i === totalSteps - 1;
      if (isShown) {
        const sigma = schedule.sigmas[i]!;
        calls.push(
          this.#preview!.program.call({ numbers: [1, ...weights.map((w) => -sigma * w)] }),
        );
      }
      calls.push(this.#solver.call(i, weights));
      if (this.#kept) calls.push(this.#kept.call(isLast ? 0 : schedule.sigmas[i + 1]!));
      await work.run(calls, {
        isLast: i === end - 1,
        // What is wrong after the first step is wrong to the end. What the last one gives need not be made again where
        // the decoder turns out to have factors beyond f16.
        reads: i === first || (isLast && this.#stage.isRounding) ? [sample] : [],
        finished: ([values]) => {
          if (values && i === first) this.#checkFirstStep(values, work);
          if (values && isLast) attempt.denoised = values;
          work.progress("denoise", i + 1, totalSteps);
        },
      });
      if (!isShown) continue;
      await this.#preview!.decoder.run(work, {
        received: (_, pixels) =>
          pixels && work.control.onPreview?.(work.composed(toUnitRange(pixels)), shown.indexOf(i)),
      });
    }
  }

  /** What a step runs: the transformer with what steers it, or without. */
  #passesOf(i: number, { request }: Work): readonly (Pass | undefined)[] {
    const steps = this.#options.schedule.timesteps.length;
    return this.#unsteered && !isSteered(request, i, steps) ? this.#unsteered : this.#passes;
  }

  /** The passes of step `i` that count, and what guidance makes of them where it is no weighted sum. */
  #predicting(
    i: number,
    isFirst: boolean,
    { weights, combined }: Guidance,
    passes: readonly (Pass | undefined)[],
  ): Call[] {
    if (combined?.weight(i) === 0) return [clearing([this.#combined!.velocity])];
    const own = [...weights(i)];
    const isNeeded = this.#outputs.map(({ shape }) =>
      own.splice(0, shape[0]!).some((weight) => weight !== 0)
    );
    const calls = passes.flatMap((pass, k) => pass && isNeeded[k] ? [pass.call({})] : []);
    if (this.#share) calls.push(this.#share.call({}));
    if (combined) {
      const { guided, unguided } = this.#combined!;
      const isGuided = isNeeded.every(Boolean);
      return [...calls, isGuided ? guided.call({ numbers: combined.settings }) : unguided.call({})];
    }
    // The solver reads what counts nothing, too.
    const others = this.#outputs.filter((_, k) => !isNeeded[k]);
    return isFirst ? [clearing(others), ...calls] : calls;
  }

  #checkFirstStep(sample: Float32Array, work: Work): void {
    if (isFinite(sample)) return;
    // Factors of f16 are counted where they are rounded.
    throw this.#operands === "int8" ? new OverflowError() : work.nonFinite("the transformer");
  }
}

function traceNoise(
  stage: Stage,
  { shape, arrange }: DenoiserOptions<Inputs>["noise"],
): Program<{ readonly noise: InputSpec }, Tensor> {
  return stage.program("noise", { noise: f32(...shape) }, ({ noise }) => arrange(noise)) as Program<
    { readonly noise: InputSpec },
    Tensor
  >;
}

/** Steps as the first GPU has found them: what others find may differ by rounding. */
async function agreedSteps(
  teams: readonly Team[],
  own: readonly number[],
  totalSteps: number,
  control: RunControl,
): Promise<readonly number[]> {
  let steps = Uint8Array.from({ length: totalSteps }, (_, i) => own.includes(i) ? 1 : 0);
  for (const team of teams) {
    const taken = [[{ rank: 0, start: 0, byteLength: totalSteps }]];
    [steps] = await team.meet(
      { name: "steps", brought: [steps], taken, note: "" },
      control,
    ) as [typeof steps];
  }
  return Array.from(steps, (isReused, i) => isReused ? i : -1).filter((i) => i >= 0);
}

/** Which GPU of a team computes which pass: they take turns. */
class PassShares {
  readonly team: Team;
  readonly #count: number;

  constructor(team: Team, count: number) {
    this.team = team;
    this.#count = count;
  }

  isOwn(pass: number): boolean {
    return pass % this.team.size === this.team.rank;
  }

  /** Passes of others, each with its rank, and its place among those of that rank. */
  get others(): { readonly pass: number; readonly rank: number; readonly place: number }[] {
    const { size } = this.team;
    return Array.from({ length: this.#count }, (_, pass) => pass)
      .filter((pass) => !this.isOwn(pass))
      .map((pass) => ({ pass, rank: pass % size, place: Math.floor(pass / size) }));
  }
}

/** Brings outputs to the other GPUs; gives those of the other passes. */
function traceShare(
  stage: Stage,
  { team, others }: PassShares,
  outputs: readonly DeviceTensor[],
): Program<{ readonly outputs: readonly DeviceTensor[] }, Tensor[]> {
  const { shape } = outputs[0]!;
  const size = elementCount(shape);
  return stage.program("share", { outputs }, ({ outputs }, graph) =>
    exchange(
      ...[graph, team, "velocities", outputs] as const,
      others.map(({ pass, rank, place }) => ({
        name: `velocity ${pass}`,
        shape,
        pieces: [{ rank, start: place * size, size }],
      })),
    ));
}

function traceCombined(
  stage: Stage,
  { settings, trace }: CombinedGuidance,
  outputs: readonly DeviceTensor[],
  velocity: DeviceTensor,
): TracedGuidance {
  const guided = stage.program(
    "guide",
    { outputs, numbers: f32(1, 1, settings) },
    ({ outputs, numbers }) => {
      const [positive, negative] = splitOutputs(outputs);
      copyTo(trace(positive!, negative!, numbers), velocity);
    },
  );
  // No pass for the negative prompt may have run before it.
  const unguided = stage.program(
    "unguided",
    { outputs: outputs.slice(0, 1) },
    ({ outputs }) => copyTo(splitOutputs(outputs)[0]!, velocity),
  );
  return {
    ...{ guided: guided as unknown as Weighted, unguided: unguided as unknown as Pass, velocity },
  };
}

/** An unfinished sample as it would be without its noise, x0 = x − σ·v, as the decoder takes it. */
function tracePreview(
  stage: Stage,
  tensors: readonly DeviceTensor[],
  { decoder: traceDecoder, part = (x) => x, decoded }: SampleDecoder,
): { readonly decoder: Decoder; readonly program: Weighted } {
  const decoder = traceDecoder(stage, "preview");
  const numbers = f32(tensors.reduce((sum, { shape }) => sum + shape[0]!, 0));
  const program = stage.program("preview input", { tensors, numbers }, ({ tensors, numbers }) => {
    copyTo(decoded(combine(splitOutputs(tensors).map(part), numbers)), decoder.input);
  });
  return { decoder, program: program as unknown as Weighted };
}

/**
 * After which steps previews are made: at even distances between the first and the last.
 *
 * @param count how many are asked for
 * @returns indices of steps, in order; fewer than asked for where there are fewer steps
 */
function previewSteps(totalSteps: number, count: number): number[] {
  const steps = Array.from(
    { length: count },
    (_, k) => Math.ceil((k + 1) * totalSteps / (count + 1)) - 1,
  );
  return [...new Set(steps)];
}
