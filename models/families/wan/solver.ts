/** The solver's steps as programs: each distinct pattern of assignments is traced once. */
import {
  combine,
  copyTo,
  Graph,
  type ProgramSet,
  Resident,
  type Run,
  type Target,
} from "../../../runtime/mod.ts";
import type { Schedule, StateName, StepCoefficients } from "../../schedulers/mod.ts";

/** The tensors that a solver works on. */
export interface SolverState {
  readonly sample: Resident;
  readonly output: Resident;
}

/** Graphs of all the step patterns of a schedule, and the coefficients that each step writes. */
export class SolverGraphs {
  /** One graph per pattern, to be planned together with the model's. */
  readonly graphs: Readonly<Record<string, Graph>>;
  /** History slots and the coefficient vector; the caller allocates and destroys them. */
  readonly residents: readonly Resident[];
  readonly #schedule: Schedule;
  readonly #coefficients: Resident;
  readonly #patterns: readonly string[];

  /** Traces the patterns of `schedule`. */
  constructor(schedule: Schedule, state: SolverState, target: Target) {
    const { shape } = state.sample;
    const history = Array.from(
      { length: schedule.history },
      (_, i) => new Resident(`history${i}`, shape),
    );
    const steps = Array.from({ length: schedule.timesteps.length }, (_, i) => schedule.step(i));
    const longest = Math.max(...steps.map((step) => step.flatMap(({ terms }) => terms).length));
    this.#schedule = schedule;
    this.#coefficients = new Resident("solver coefficients", [longest]);
    this.residents = [...history, this.#coefficients];
    const tensors = (name: StateName): Resident => {
      if (name === "sample" || name === "output") return state[name];
      const slot = history[Number(name.slice("history".length))];
      if (!slot) {
        throw new TypeError(
          `Cannot trace the solver: it reads "${name}", which this pipeline does not provide`,
        );
      }
      return slot;
    };
    const graphs: Record<string, Graph> = {};
    this.#patterns = steps.map((step) => {
      const pattern = `solver ${patternOf(step)}`;
      graphs[pattern] ??= traceStep(pattern, step, tensors, this.#coefficients, target);
      return pattern;
    });
    this.graphs = graphs;
  }

  /** The run of step `i`, and the write that must happen before it. */
  step(i: number, programs: ProgramSet): Required<Pick<Run, "programs" | "before">> {
    const values = this.#schedule.step(i).flatMap(({ terms }) => terms.map(({ scale }) => scale));
    const padded = new Float32Array(this.#coefficients.shape[0]!);
    padded.set(values);
    return {
      programs: [programs.get(this.#patterns[i]!)],
      before: () => this.#coefficients.write(padded),
    };
  }
}

/** Names a pattern by its targets and sources: steps that differ in coefficients only share it. */
function patternOf(step: StepCoefficients): string {
  return step.map(({ target, terms }) => `${target}=${terms.map(({ tensor }) => tensor).join("+")}`)
    .join(" ");
}

function traceStep(
  name: string,
  step: StepCoefficients,
  resident: (name: StateName) => Resident,
  coefficients: Resident,
  target: Target,
): Graph {
  const graph = new Graph(name, target);
  let first = 0;
  for (const { target, terms } of step) {
    const sources = terms.map(({ tensor }) => graph.use(resident(tensor)));
    copyTo(combine(sources, graph.use(coefficients), first), resident(target));
    first += terms.length;
  }
  return graph;
}
