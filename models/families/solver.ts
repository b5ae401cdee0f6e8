/** The solver's steps as programs: each distinct pattern of assignments is traced once. */
import {
  combineTo,
  Graph,
  type ProgramSet,
  Resident,
  type Run,
  type Target,
  type Tensor,
} from "../../runtime/mod.ts";
import type { Schedule, StateName, StepCoefficients } from "../schedulers/mod.ts";

/** The tensors that a solver works on. */
export interface SolverState {
  readonly sample: Resident;
  /** The model's output is a weighted sum of these, of the shape of the sample. */
  outputs(graph: Graph): readonly Tensor[];
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
    const outputs = state.outputs(new Graph("outputs", target)).length;
    const count = (step: StepCoefficients) =>
      step.flatMap(({ terms }) => terms)
        .reduce((sum, { tensor }) => sum + (tensor === "output" ? outputs : 1), 0);
    const longest = Math.max(...steps.map(count));
    this.#schedule = schedule;
    this.#coefficients = new Resident("solver coefficients", [longest]);
    this.residents = [...history, this.#coefficients];
    const place = (name: StateName): Resident => {
      const found = name === "sample"
        ? state.sample
        : history[Number(name.slice("history".length))];
      if (!found) {
        throw new TypeError(
          `Cannot trace the solver: it uses "${name}", which this pipeline does not provide`,
        );
      }
      return found;
    };
    const sources = (graph: Graph, name: StateName) =>
      name === "output" ? state.outputs(graph) : [graph.use(place(name))];
    const graphs: Record<string, Graph> = {};
    this.#patterns = steps.map((step) => {
      const pattern = `solver ${patternOf(step)}`;
      graphs[pattern] ??= traceStep(pattern, step, { place, sources }, this.#coefficients, target);
      return pattern;
    });
    this.graphs = graphs;
  }

  /**
   * The run of step `i`, and the write that must happen before it.
   *
   * @param outputWeights one for each of the outputs
   */
  step(
    i: number,
    programs: Pick<ProgramSet, "get">,
    outputWeights: readonly number[],
  ): Required<Pick<Run, "programs" | "before">> {
    const values = this.#schedule.step(i).flatMap(({ terms }) =>
      terms.flatMap(({ tensor, scale }) =>
        tensor === "output" ? outputWeights.map((weight) => scale * weight) : [scale]
      )
    );
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

/** Where the names of a step are found. */
interface StateTensors {
  place(name: StateName): Resident;
  sources(graph: Graph, name: StateName): readonly Tensor[];
}

function traceStep(
  name: string,
  step: StepCoefficients,
  { place, sources }: StateTensors,
  coefficients: Resident,
  target: Target,
): Graph {
  const graph = new Graph(name, target);
  let first = 0;
  for (const { target, terms } of step) {
    const tensors = terms.flatMap(({ tensor }) => sources(graph, tensor));
    combineTo(tensors, graph.use(coefficients), first, place(target));
    first += tensors.length;
  }
  return graph;
}
