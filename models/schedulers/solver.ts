/** The solver's steps as programs: each distinct pattern of assignments is traced once. */
import {
  type Call,
  combineTo,
  type DeviceTensor,
  f32,
  type Program,
  slice,
  type Tensor,
} from "../../runtime/mod.ts";
import type { Stage } from "../memory/session.ts";
import type { Schedule, StateName, StepCoefficients } from "./mod.ts";

interface SolverState {
  /** The noisy latents, [1, ...]; each step overwrites them. */
  readonly sample: DeviceTensor;
  /** What the transformer gives, [n, ...]: n outputs of the shape of the sample. */
  readonly outputs: readonly DeviceTensor[];
  /** Tensors of {@linkcode solverHistory}, where several solvers share the steps; the solver's own by default. */
  readonly history?: readonly DeviceTensor[] | undefined;
  readonly noise?: DeviceTensor | undefined;
}

export type StepRange = readonly [first: number, end: number];

export function solverHistory(
  place: Pick<Stage, "tensor">,
  { history }: Schedule,
  sample: DeviceTensor,
): DeviceTensor[] {
  return Array.from({ length: history }, (_, i) => place.tensor(`history${i}`, sample.shape));
}

type Pattern = Program<{ readonly coefficients: readonly number[] }>;

export class Solver {
  readonly #schedule: Schedule;
  readonly #steps = new Map<number, Pattern>();

  constructor(stage: Stage, schedule: Schedule, state: SolverState, range?: StepRange) {
    this.#schedule = schedule;
    const { sample, outputs, history = solverHistory(stage, schedule, sample) } = state;
    const place = (name: StateName): DeviceTensor => {
      if (name === "sample") return sample;
      const found = name === "noise" ? state.noise : history[Number(name.slice("history".length))];
      if (found) return found;
      throw new TypeError(
        `Cannot trace the solver: it uses "${name}", which this pipeline does not provide`,
      );
    };
    const patterns = new Map<string, Pattern>();
    const [first, end] = range ?? [0, schedule.timesteps.length];
    for (let i = first; i < end; i++) {
      const step = schedule.step(i);
      const name = patternOf(step);
      const pattern = patterns.get(name) ?? tracePattern(stage, name, step, outputs, place);
      patterns.set(name, pattern);
      this.#steps.set(i, pattern);
    }
  }

  /** Step `i` of the schedule; the weighted sum of the outputs is the velocity. */
  call(i: number, weights: readonly number[]): Call {
    const coefficients = this.#schedule.step(i).flatMap(({ terms }) =>
      terms.flatMap(({ tensor, scale }) =>
        tensor === "output" ? weights.map((weight) => scale * weight) : [scale]
      )
    );
    return this.#steps.get(i)!.call({ coefficients });
  }
}

export function splitOutputs(outputs: readonly Tensor[]): Tensor[] {
  return outputs.flatMap((x) => Array.from({ length: x.dim(0) }, (_, i) => slice(x, 0, i, i + 1)));
}

function patternOf(step: StepCoefficients): string {
  return step.map(({ target, terms }) => `${target}=${terms.map(({ tensor }) => tensor).join("+")}`)
    .join(" ");
}

function tracePattern(
  stage: Stage,
  name: string,
  step: StepCoefficients,
  outputs: readonly DeviceTensor[],
  place: (name: StateName) => DeviceTensor,
): Pattern {
  const outputCount = outputs.reduce((sum, { shape }) => sum + shape[0]!, 0);
  const count = step.flatMap(({ terms }) => terms)
    .reduce((sum, { tensor }) => sum + (tensor === "output" ? outputCount : 1), 0);
  return stage.program(
    `solver ${name}`,
    { coefficients: f32(count) },
    ({ coefficients }, graph) => {
      let first = 0;
      for (const { target, terms } of step) {
        const tensors = terms.flatMap(({ tensor }) =>
          tensor === "output"
            ? splitOutputs(outputs.map((output) => graph.use(output)))
            : [graph.use(place(tensor))]
        );
        combineTo(tensors, coefficients, first, place(target));
        first += tensors.length;
      }
    },
  );
}
