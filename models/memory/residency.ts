/**
 * Which weights are on the device when: all of them if they fit; else a component, or what one stage needs of it, is freed
 * after that stage; as the last resort a stage's weights are streamed. None of it changes what is computed.
 */
import {
  type DeviceTensor,
  type MemoryPlan,
  mergePlans,
  planMemory,
  type Weights,
} from "../../runtime/mod.ts";
import type { Session, Stage } from "./session.ts";
import { bytesOf, planStreaming, type StreamingChoice } from "./streaming.ts";

/** A model's weights by component, in the order of use: `text encoder`, `transformer`, `autoencoder`. */
export type Components = Readonly<Record<string, Weights>>;

export function weightOwners(components: Components): Map<DeviceTensor, string> {
  return new Map(
    Object.entries(components).flatMap(([name, weights]) =>
      [...weights.deviceTensors].map((weight) => [weight, name] as const)
    ),
  );
}

export interface StagePlan {
  readonly stage: Stage;
  readonly plan: MemoryPlan;
  /** Weights that have memory of their own while it runs, those that other stages keep there included. */
  readonly weights: ReadonlySet<DeviceTensor>;
  /** Weights, and results that wait in host memory, that are read into slabs on every pass. */
  readonly streamed: ReadonlySet<DeviceTensor>;
  readonly own: readonly DeviceTensor[];
  /** Bytes of the copy that results are read through. */
  readonly readBytes: number;
  readonly peakBytes: number;
}

export interface ResidencyPlan {
  readonly isTogether: boolean;
  readonly kept: ReadonlySet<DeviceTensor>;
  readonly stages: readonly StagePlan[];
  readonly state: readonly DeviceTensor[];
  readonly stateBytes: number;
  readonly peakBytes: number;
  /** Bytes of weights, and of results that wait in host memory, that a request brings to the device again. */
  readonly reloadedBytes: number;
  /** Results that wait in host memory between the passes that read them. */
  readonly waiting: ReadonlySet<DeviceTensor>;
}

export interface ResidencyOptions {
  readonly budgetBytes: number;
  readonly offloaded?: ReadonlySet<string>;
}

export interface Demands {
  readonly state: readonly DeviceTensor[];
  readonly stages: readonly StageDemand[];
  readonly componentOf: ReadonlyMap<DeviceTensor, string>;
}

interface StageDemand {
  readonly stage: Stage;
  readonly plan: MemoryPlan;
  readonly own: readonly DeviceTensor[];
  /** Bytes of the largest set of tensors that is written and read back together. */
  readonly readBytes: number;
  /** Weights in the order of use, and {@linkcode HostResult}s of which the plan says where they are. */
  readonly weights: readonly DeviceTensor[];
}

interface Candidate {
  readonly kept: ReadonlySet<DeviceTensor>;
  readonly stages: readonly (StageDemand & StreamingChoice & {
    readonly peakBytes: number;
  })[];
  readonly peakBytes: number;
  readonly reloadedBytes: number;
}

export function planResidency(
  demands: Demands,
  { budgetBytes, offloaded = new Set() }: ResidencyOptions,
): ResidencyPlan {
  if (offloaded.size === 0) {
    const together = planTogether(demands);
    if (together.peakBytes <= budgetBytes) return together;
  }
  let best: Candidate | undefined;
  for (const kept of subsetsOf(groupsOf(demands, offloaded))) {
    const candidate = chooseApart(demands, kept, budgetBytes);
    if (!best || isBetter(candidate, best, budgetBytes)) best = candidate;
  }
  return planApart(demands, best!);
}

/** Parts of a component below this share of all weights are not worth a choice of their own. */
const SMALL_GROUP_SHARE = 0.01;
/** Most sets of weights that are chosen from: all their subsets are tried. */
const MAX_GROUPS = 6;

/** Weights of a component that the same stages use, to be kept together or not at all; whole components if there are too many. */
function groupsOf(
  { stages, componentOf }: Demands,
  offloaded: ReadonlySet<string>,
): readonly ReadonlySet<DeviceTensor>[] {
  const users = new Map<DeviceTensor, string>();
  stages.forEach(({ weights }, i) => {
    for (const weight of weights) users.set(weight, `${users.get(weight) ?? ""} ${i}`);
  });
  const used = [...users.keys()].filter((weight) =>
    componentOf.has(weight) && !offloaded.has(componentOf.get(weight)!)
  );
  const least = bytesOf(used) * SMALL_GROUP_SHARE;
  const components = Map.groupBy(used, (weight) => componentOf.get(weight)!);
  const byUse = [...components.values()].flatMap((own) => {
    const groups = [...Map.groupBy(own, (weight) => users.get(weight)!).values()];
    const [largest, ...others] = groups.toSorted((a, b) => bytesOf(b) - bytesOf(a));
    const isSmall = (group: readonly DeviceTensor[]) => bytesOf(group) < least;
    return [
      [...largest!, ...others.filter(isSmall).flat()],
      ...others.filter((group) => !isSmall(group)),
    ];
  });
  const groups = byUse.length <= MAX_GROUPS ? byUse : [...components.values()];
  return groups.map((group) => new Set(group));
}

function isBetter(plan: Candidate, best: Candidate, budgetBytes: number): boolean {
  const [fits, bestFits] = [plan.peakBytes <= budgetBytes, best.peakBytes <= budgetBytes];
  if (fits !== bestFits) return fits;
  return fits ? plan.reloadedBytes < best.reloadedBytes : plan.peakBytes < best.peakBytes;
}

export function demandsOf(session: Session, components: Components): Demands {
  const { stages, tensors, saturation: { counters } } = session;
  const componentOf = weightOwners(components);
  const plans = stages.map(({ graphs }) => planMemory(graphs));
  const users = new Map<DeviceTensor, number>();
  for (const tensor of plans.flatMap(({ tensors }) => [...tensors])) {
    users.set(tensor, (users.get(tensor) ?? 0) + 1);
  }
  const declared = stages.flatMap((stage) => [...stage.tensors]);
  const shared = [...tensors, ...declared.filter((tensor) => users.get(tensor)! > 1)];
  // Every read-back has the counters with it.
  const countedBytes = tensors.has(counters) ? counters.byteLength : 0;
  return {
    state: shared.filter((tensor) => users.has(tensor)),
    stages: stages.map((stage, i) => ({
      stage,
      plan: plans[i]!,
      own: [...stage.tensors].filter((tensor) => users.get(tensor) === 1),
      readBytes: Math.max(
        0,
        ...stage.reads.map((tensors) => bytesOf(tensors) + countedBytes),
        ...Object.values(stage.graphs).flatMap(({ exchanges }) =>
          exchanges.map(({ broughtBytes }) => broughtBytes + countedBytes)
        ),
      ),
      weights: [...plans[i]!.tensors].filter((tensor) =>
        componentOf.has(tensor) || (tensor.hasSource && !stage.tensors.has(tensor))
      ),
    })),
    componentOf,
  };
}

function planTogether({ state, stages, componentOf }: Demands): ResidencyPlan {
  const stateBytes = bytesOf(state);
  const all = new Set(stages.flatMap((stage) => stage.weights));
  const results = [...all].filter((tensor) => !componentOf.has(tensor));
  const own = [...stages.flatMap((stage) => stage.own), ...results];
  const readBytes = Math.max(...stages.map((stage) => stage.readBytes));
  const plan = mergePlans(stages.map((stage) => stage.plan));
  const weights = all.difference(new Set(results));
  const tensorBytes = stateBytes + bytesOf(own) + readBytes;
  const peakBytes = tensorBytes + plan.workspaceBytes + bytesOf(weights);
  return {
    isTogether: true,
    kept: weights,
    stages: stages.map(({ stage }) => ({
      stage,
      plan,
      weights,
      streamed: new Set(),
      own,
      readBytes,
      peakBytes,
    })),
    state,
    stateBytes,
    peakBytes,
    reloadedBytes: 0,
    waiting: new Set(),
  };
}

function chooseApart(
  { state, stages }: Demands,
  groups: ReadonlySet<ReadonlySet<DeviceTensor>>,
  budgetBytes: number,
): Candidate {
  const kept = new Set([...groups].flatMap((group) => [...group]));
  const isKept = (weight: DeviceTensor) => kept.has(weight);
  const alwaysBytes = bytesOf(state) + bytesOf(kept);
  let reloadedBytes = 0;
  const chosen = stages.map((demand) => {
    const { stage, plan, own, readBytes, weights } = demand;
    const fixedBytes = alwaysBytes + bytesOf(own) + readBytes + plan.workspaceBytes;
    const others = weights.filter((weight) => !isKept(weight));
    const choice = planStreaming(stage, others, budgetBytes - fixedBytes);
    const streamedBytes = bytesOf(choice.streamed);
    const heldBytes = bytesOf(others) - streamedBytes;
    reloadedBytes += heldBytes + streamedBytes * stage.repeats;
    const peakBytes = fixedBytes + heldBytes + choice.slabBytes;
    return { ...demand, ...choice, peakBytes };
  });
  const peakBytes = Math.max(...chosen.map((stage) => stage.peakBytes));
  return { kept, stages: chosen, peakBytes, reloadedBytes };
}

function planApart(
  { state, componentOf }: Demands,
  { stages, kept, ...candidate }: Candidate,
): ResidencyPlan {
  const isResult = (tensor: DeviceTensor) => !componentOf.has(tensor);
  return {
    isTogether: false,
    kept,
    stages: stages.map((
      { stage, plan, weights, streamed, segmentBytes, own, readBytes, peakBytes },
    ) => ({
      stage,
      plan: streamed.size > 0 ? planMemory(stage.graphs, { streamed, segmentBytes }) : plan,
      weights: new Set(
        [...kept, ...weights].filter((weight) => !streamed.has(weight) && !isResult(weight)),
      ),
      streamed,
      own: [...own, ...weights.filter((tensor) => isResult(tensor) && !streamed.has(tensor))],
      readBytes,
      peakBytes,
    })),
    state,
    stateBytes: bytesOf(state),
    waiting: new Set(stages.flatMap(({ streamed }) => [...streamed].filter(isResult))),
    ...candidate,
  };
}

function subsetsOf<T>(items: readonly T[]): Set<T>[] {
  return Array.from(
    { length: 2 ** items.length },
    (_, choice) => new Set(items.filter((_, i) => choice >> i & 1)),
  );
}
