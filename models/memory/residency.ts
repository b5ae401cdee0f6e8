/**
 * Which weights are on the device when. All of them all the time is the fastest; where the budget does not hold that,
 * components are freed after the stage that uses them, and as the last resort the weights of a stage are streamed.
 * None of it changes what is computed.
 */
import { type MemoryPlan, planMemory, type Resident } from "../../runtime/mod.ts";
import type { Components, SessionMemory, Stage } from "./stage.ts";
import { bytesOf, planStreaming } from "./streaming.ts";

/** What a stage has on the device while it runs. */
export interface StagePlan {
  readonly stage: Stage;
  /** Of its programs, or of all stages' programs where they are kept together. */
  readonly plan: MemoryPlan;
  /** Weights that have memory of their own while it runs, those that other stages keep there included. */
  readonly weights: ReadonlySet<Resident>;
  /** Weights that are read into slabs on every pass. */
  readonly streamed: ReadonlySet<Resident>;
  /** Bytes of the copy that results are read through. */
  readonly readBytes: number;
  /** Everything together, in bytes. */
  readonly peakBytes: number;
}

/** Where everything lies while a session works. */
export interface ResidencyPlan {
  /** Whether all programs and weights are on the device all the time. */
  readonly isTogether: boolean;
  /** Weights that stay on the device from stage to stage, and from request to request. */
  readonly kept: ReadonlySet<Resident>;
  readonly stages: readonly StagePlan[];
  /** The session's own tensors that live throughout. */
  readonly state: readonly Resident[];
  /** Bytes of `state`. */
  readonly stateBytes: number;
  /** The most that is on the device at once. */
  readonly peakBytes: number;
  /** Bytes of weights that a request brings to the device again. */
  readonly reloadedBytes: number;
}

/** What the choice depends on. */
export interface ResidencyOptions {
  /** Bytes that may be on the device. */
  readonly budgetBytes: number;
  /** Components that are freed after their stage in any case. */
  readonly offloaded?: ReadonlySet<string>;
}

/** Weights by stage, sorted out once for all candidates. */
interface Demands {
  readonly state: readonly Resident[];
  readonly stateBytes: number;
  /** Of every stage: its plan with all weights resident, and its weights in the order of use. */
  readonly stages: readonly StageDemand[];
  readonly componentOf: ReadonlyMap<Resident, string>;
}

interface StageDemand {
  readonly stage: Stage;
  readonly plan: MemoryPlan;
  /** Of the largest set of tensors that it writes and that are read back together. */
  readonly readBytes: number;
  readonly weights: readonly Resident[];
}

/**
 * The residency that fits the budget and brings the fewest bytes to the device again; where none fits, the one that
 * takes least.
 */
export function planResidency(memory: SessionMemory, options: ResidencyOptions): ResidencyPlan {
  const { budgetBytes, offloaded = new Set() } = options;
  const demands = demandsOf(memory);
  const names = Object.keys(memory.components);
  if (offloaded.size === 0) {
    const together = planTogether(memory, demands);
    if (together.peakBytes <= budgetBytes) return together;
  }
  let best: ResidencyPlan | undefined;
  for (const kept of subsetsOf(names.filter((name) => !offloaded.has(name)))) {
    const plan = planApart(demands, kept, budgetBytes);
    if (!best || isBetter(plan, best, budgetBytes)) best = plan;
  }
  return best!;
}

function isBetter(plan: ResidencyPlan, best: ResidencyPlan, budgetBytes: number): boolean {
  const [fits, bestFits] = [plan.peakBytes <= budgetBytes, best.peakBytes <= budgetBytes];
  if (fits !== bestFits) return fits;
  return fits ? plan.reloadedBytes < best.reloadedBytes : plan.peakBytes < best.peakBytes;
}

function demandsOf({ stages, components, residents, reads = [] }: SessionMemory): Demands {
  const componentOf = weightOwners(components);
  const planned = stages.map((stage): StageDemand => {
    const plan = planMemory(stage.graphs);
    return {
      stage,
      plan,
      readBytes: Math.max(0, ...reads.map((set) => writtenBytes(set, stage))),
      weights: [...plan.residents].filter((resident) => componentOf.has(resident)),
    };
  });
  const used = new Set(planned.flatMap(({ plan }) => [...plan.residents]));
  const state = residents.filter((resident) => used.has(resident));
  return { state, stateBytes: bytesOf(state), stages: planned, componentOf };
}

/** Bytes of those tensors that a stage's programs write. */
function writtenBytes(residents: readonly Resident[], { graphs }: Stage): number {
  const written = new Set(
    Object.values(graphs).flatMap(({ dispatches }) =>
      dispatches.flatMap(({ kernel, tensors }) =>
        tensors.filter((_, i) => kernel.buffers[i]!.access !== "read").map(({ memory }) => memory)
      )
    ),
  );
  return bytesOf(residents.filter((resident) => written.has(resident)));
}

/** One workspace for all stages. */
function planTogether({ stages }: SessionMemory, demands: Demands): ResidencyPlan {
  const { state, stateBytes } = demands;
  const readBytes = Math.max(...demands.stages.map((stage) => stage.readBytes));
  const plan = planMemory(Object.assign({}, ...stages.map(({ graphs }) => graphs)));
  const weights = new Set(demands.stages.flatMap((stage) => stage.weights));
  const peakBytes = stateBytes + readBytes + plan.workspaceBytes + bytesOf(weights);
  return {
    isTogether: true,
    kept: weights,
    stages: stages.map((stage) => ({
      stage,
      plan,
      weights,
      streamed: new Set(),
      readBytes,
      peakBytes,
    })),
    state,
    stateBytes,
    peakBytes,
    reloadedBytes: 0,
  };
}

/** A workspace for each stage, and the weights of some components kept from stage to stage. */
function planApart(
  { state, stateBytes, stages, componentOf }: Demands,
  components: ReadonlySet<string>,
  budgetBytes: number,
): ResidencyPlan {
  const isKept = (weight: Resident) => components.has(componentOf.get(weight)!);
  const kept = new Set(stages.flatMap(({ weights }) => weights.filter(isKept)));
  const keptBytes = bytesOf(kept);
  let reloadedBytes = 0;
  const planned = stages.map(({ stage, plan, weights, readBytes }): StagePlan => {
    const fixedBytes = stateBytes + readBytes + keptBytes;
    const others = weights.filter((weight) => !isKept(weight));
    const chosen = planStreaming(stage, plan, others, budgetBytes - fixedBytes);
    const own = others.filter((weight) => !chosen.streamed.has(weight));
    reloadedBytes += bytesOf(own) + bytesOf(chosen.streamed) * (stage.repeats ?? 1);
    return {
      stage,
      ...chosen,
      weights: new Set([...kept, ...own]),
      readBytes,
      peakBytes: fixedBytes + bytesOf(own) + chosen.plan.workspaceBytes,
    };
  });
  const peakBytes = Math.max(...planned.map((stage) => stage.peakBytes));
  return {
    isTogether: false,
    kept,
    stages: planned,
    state,
    stateBytes,
    peakBytes,
    reloadedBytes,
  };
}

/** Which component a weight belongs to. */
export function weightOwners(components: Components): Map<Resident, string> {
  return new Map(
    Object.entries(components).flatMap(([name, weights]) =>
      [...weights.residents].map((weight) => [weight, name] as const)
    ),
  );
}

function subsetsOf<T>(items: readonly T[]): Set<T>[] {
  return Array.from(
    { length: 2 ** items.length },
    (_, choice) => new Set(items.filter((_, i) => choice >> i & 1)),
  );
}
