/** Memory planning: intermediates that never live together share a slot, as do programs that never run at the same time. */
import { elideCopies } from "./copy_elision.ts";
import type { Dispatch, Graph } from "../graph/graph.ts";
import type { DeviceTensor } from "../device/device_tensor.ts";
import { cutSegments, type Segment, SLAB_COUNT, type StreamingOptions } from "./segments.ts";
import { RESERVED_PARAMS } from "../shaders/assemble.ts";
import { roundUp } from "../shape.ts";
import type { Target } from "../target.ts";

/** One dispatch as it will be encoded: a part of a recorded dispatch's grid. */
export interface PlannedDispatch {
  /** What was recorded. */
  readonly dispatch: Dispatch;
  /** First workgroup of the part. */
  readonly base: readonly [number, number, number];
  /** Workgroups of the part. */
  readonly workgroups: readonly [number, number, number];
  /** Where its streamed weights are; submits are of one segment. */
  readonly segment?: Segment;
}

/** One program of a plan. */
export interface PlannedProgram {
  /** What was traced. */
  readonly graph: Graph;
  /** Slot per intermediate id. */
  readonly slots: ReadonlyMap<number, number>;
  /** Dispatches, grouped by submit. */
  readonly submits: readonly (readonly PlannedDispatch[])[];
  /** Bytes of the buffer that holds the parameters of all dispatches. */
  readonly paramBytes: number;
}

/** Where everything will lie, before anything is allocated. */
export interface MemoryPlan {
  /** Programs by the names given to {@linkcode planMemory}. */
  readonly programs: Readonly<Record<string, PlannedProgram>>;
  /** Sizes of the shared slots, largest first. */
  readonly slotBytes: readonly number[];
  /** Sizes of the slabs for streamed weights, in the order of {@linkcode Segment.slab}. */
  readonly slabBytes: readonly number[];
  /** Slots, slabs, parameters and constants: what {@linkcode instantiate} allocates, to the byte. */
  readonly workspaceBytes: number;
  /** Weights, inputs, results and state that the programs use, but for those that are streamed. */
  readonly tensors: ReadonlySet<DeviceTensor>;
  /** Bytes of `tensors`. */
  readonly tensorBytes: number;
  /** Bytes of everything together. */
  readonly peakBytes: number;
}

/** Bytes between the parameter blocks of two dispatches: WebGPU's strictest uniform alignment. */
export const PARAM_STRIDE = 256;

/**
 * Plans programs that never run at the same time.
 *
 * @throws {TypeError} when something is to be streamed that programs write, or that cannot be read again
 */
export function planMemory(
  graphs: Readonly<Record<string, Graph>>,
  streaming: StreamingOptions = {},
): MemoryPlan {
  const programs: Record<string, PlannedProgram> = {};
  const slotBytes: number[] = [];
  const slabBytes = planSlabs(graphs, streaming);
  const tensors = new Set<DeviceTensor>();
  let ownBytes = 0;
  for (const [name, graph] of Object.entries(graphs)) {
    const dispatches = elideCopies(graph.dispatches);
    const { slots, sizes } = assignSlots(dispatches);
    sizes.forEach((size, i) => slotBytes[i] = Math.max(slotBytes[i] ?? 0, size));
    const blocks = dispatches.reduce(
      (sum, dispatch) => sum + paramBlocks(dispatch) * countParts(dispatch, graph.target),
      0,
    );
    const paramBytes = blocks * PARAM_STRIDE;
    // Most plans are only weighed against others, and large work has many thousands of parts.
    let submits: PlannedProgram["submits"] | undefined;
    programs[name] = {
      graph,
      slots,
      paramBytes,
      get submits() {
        return submits ??= cutSubmits(
          dispatches,
          cutSegments(dispatches, streaming, graph.target.limits),
          graph.target,
        );
      },
    };
    ownBytes += paramBytes;
    for (const { tensor } of graph.constants) ownBytes += tensor.byteLength;
    for (const tensor of graph.deviceTensors) {
      if (!streaming.streamed?.has(tensor)) tensors.add(tensor);
    }
  }
  const workspaceBytes = [...slotBytes, ...slabBytes].reduce((sum, size) => sum + size, ownBytes);
  const tensorBytes = tensors.values().reduce((sum, { byteLength }) => sum + byteLength, 0);
  return {
    programs,
    slotBytes,
    slabBytes,
    workspaceBytes,
    tensors,
    tensorBytes,
    peakBytes: workspaceBytes + tensorBytes,
  };
}

/**
 * Sizes of the slabs that programs would need, which is what streaming adds to their workspace; far less work than
 * {@linkcode planMemory}.
 *
 * @returns bytes in the order of {@linkcode Segment.slab}
 * @throws {TypeError} as {@linkcode planMemory}
 */
export function planSlabs(
  graphs: Readonly<Record<string, Graph>>,
  streaming: StreamingOptions,
): number[] {
  const slabBytes = new Array<number>(SLAB_COUNT).fill(0);
  for (const graph of Object.values(graphs)) {
    const dispatches = elideCopies(graph.dispatches);
    for (const segment of cutSegments(dispatches, streaming, graph.target.limits)) {
      if (!segment) continue;
      slabBytes[segment.slab] = Math.max(slabBytes[segment.slab]!, segment.byteLength);
    }
  }
  return slabBytes;
}

/**
 * One plan for the programs of several, which share one workspace then.
 *
 * @param plans without streamed weights, whose programs have different names
 */
export function mergePlans(plans: readonly MemoryPlan[]): MemoryPlan {
  const slotBytes: number[] = [];
  let ownBytes = 0;
  for (const plan of plans) {
    plan.slotBytes.forEach((size, i) => slotBytes[i] = Math.max(slotBytes[i] ?? 0, size));
    ownBytes += plan.slotBytes.reduce((rest, size) => rest - size, plan.workspaceBytes);
  }
  const tensors = new Set(plans.flatMap((plan) => [...plan.tensors]));
  const tensorBytes = tensors.values().reduce((sum, { byteLength }) => sum + byteLength, 0);
  const workspaceBytes = slotBytes.reduce((sum, size) => sum + size, ownBytes);
  return {
    programs: Object.assign({}, ...plans.map(({ programs }) => programs)),
    slotBytes,
    slabBytes: new Array<number>(SLAB_COUNT).fill(0),
    workspaceBytes,
    tensors,
    tensorBytes,
    peakBytes: workspaceBytes + tensorBytes,
  };
}

/** Bytes of a dispatch's parameters, the runtime's own included; each is 4 bytes long. */
export function paramBytesOf(dispatch: Dispatch): number {
  return (RESERVED_PARAMS + dispatch.params.length) * 4;
}

/** Parameter blocks of {@linkcode PARAM_STRIDE} bytes that a dispatch needs. */
export function paramBlocks(dispatch: Dispatch): number {
  return Math.ceil(paramBytesOf(dispatch) / PARAM_STRIDE);
}

interface Lifetime {
  readonly id: number;
  readonly bytes: number;
  readonly first: number;
  last: number;
}

/** Greedy by size: the largest tensors choose first, each takes the first slot that is free while it lives. */
function assignSlots(
  dispatches: readonly Dispatch[],
): { slots: Map<number, number>; sizes: number[] } {
  const lifetimes = new Map<number, Lifetime>();
  dispatches.forEach((dispatch, time) => {
    for (const { memory } of dispatch.tensors) {
      if (!("id" in memory)) continue;
      const known = lifetimes.get(memory.id);
      if (known) known.last = time;
      else {
        lifetimes.set(memory.id, {
          id: memory.id,
          bytes: memory.byteLength,
          first: time,
          last: time,
        });
      }
    }
  });
  const slots = new Map<number, number>();
  const occupants: Lifetime[][] = [];
  const sizes: number[] = [];
  const bySize = [...lifetimes.values()].sort((a, b) => b.bytes - a.bytes || a.id - b.id);
  for (const tensor of bySize) {
    let slot = occupants.findIndex((others) =>
      others.every((other) => other.last < tensor.first || tensor.last < other.first)
    );
    if (slot === -1) {
      slot = occupants.length;
      occupants.push([]);
      sizes.push(roundUp(tensor.bytes, 256));
    }
    occupants[slot]!.push(tensor);
    slots.set(tensor.id, slot);
  }
  return { slots, sizes };
}

/** Part of a submit's budget that a dispatch takes. */
function dispatchCost({ flops, bytes, exchange }: Dispatch, { submitBudget }: Target): number {
  if (exchange) return 0;
  return flops / submitBudget.flops + bytes / submitBudget.bytes;
}

/** Cost of a part of a dispatch's grid, in budgets of a submit. */
export function submitCost({ dispatch, workgroups }: PlannedDispatch, target: Target): number {
  const count = (grid: readonly number[]) => grid.reduce((product, size) => product * size, 1);
  return dispatchCost(dispatch, target) * count(workgroups) / count(dispatch.workgroups);
}

/** Cuts grids that are too large or long, and groups dispatches into submits within the budget, each of one segment. */
function cutSubmits(
  dispatches: readonly Dispatch[],
  segments: readonly (Segment | undefined)[],
  target: Target,
): PlannedDispatch[][] {
  const submits: PlannedDispatch[][] = [];
  let current: PlannedDispatch[] = [];
  let cost = 0;
  for (const [i, dispatch] of dispatches.entries()) {
    const segment = segments[i];
    if (dispatch.exchange) {
      if (current.length > 0) submits.push(current);
      submits.push(cutGrid(dispatch, target));
      current = [];
      cost = 0;
      continue;
    }
    for (const part of cutGrid(dispatch, target)) {
      const partCost = submitCost(part, target);
      const joins = cost + partCost <= 1 && current.at(-1)?.segment === segment;
      if (current.length > 0 && !joins) {
        submits.push(current);
        current = [];
        cost = 0;
      }
      current.push(segment ? { ...part, segment } : part);
      cost += partCost;
    }
  }
  if (current.length > 0) submits.push(current);
  return submits;
}

/** Workgroups of a dispatch's parts along each axis; the longest axis is cut first: its parts differ least in size. */
function partSizes(dispatch: Dispatch, target: Target): [number, number, number] {
  const { workgroups } = dispatch;
  const limit = target.limits.maxWorkgroupsPerDimension;
  const sizes: [number, number, number] = [...workgroups];
  let wanted = Math.ceil(dispatchCost(dispatch, target));
  for (const axis of [0, 1, 2].sort((a, b) => workgroups[b]! - workgroups[a]!)) {
    const count = workgroups[axis]!;
    sizes[axis] = Math.min(limit, Math.max(1, Math.floor(count / Math.max(1, wanted))));
    wanted = Math.ceil(wanted / Math.ceil(count / sizes[axis]!));
  }
  return sizes;
}

function countParts(dispatch: Dispatch, target: Target): number {
  const sizes = partSizes(dispatch, target);
  return dispatch.workgroups.reduce(
    (product, count, axis) => product * Math.ceil(count / sizes[axis]!),
    1,
  );
}

function cutGrid(dispatch: Dispatch, target: Target): PlannedDispatch[] {
  const { workgroups } = dispatch;
  const [width, height, depth] = partSizes(dispatch, target);
  const result: PlannedDispatch[] = [];
  for (let z = 0; z < workgroups[2]; z += depth) {
    for (let y = 0; y < workgroups[1]; y += height) {
      for (let x = 0; x < workgroups[0]; x += width) {
        result.push({
          dispatch,
          base: [x, y, z],
          workgroups: [
            Math.min(width, workgroups[0] - x),
            Math.min(height, workgroups[1] - y),
            Math.min(depth, workgroups[2] - z),
          ],
        });
      }
    }
  }
  return result;
}
