/** A residency plan in numbers, for people and programs. */
import type { DeviceTensor, ExchangedBytes } from "../../runtime/mod.ts";
import { type Components, type ResidencyPlan, weightOwners } from "./residency.ts";
import { bytesOf } from "./streaming.ts";

/** What a component has on the device during a stage. */
export interface ComponentReport {
  /** Name of the component, such as `transformer`. */
  readonly name: string;
  /** Bytes of weights that are on the device all the time. */
  readonly keptBytes: number;
  /** Bytes of those that are there for this stage, and freed after it. */
  readonly freedBytes: number;
  /** Bytes of weights that are read on every pass. */
  readonly streamedBytes: number;
}

/** What a stage takes. */
export interface StageReport {
  /** Name of the stage, such as `denoise`. */
  readonly name: string;
  /** Components that have weights on the device or read them. */
  readonly components: readonly ComponentReport[];
  /** Intermediate values, parameters and constants of its programs. */
  readonly activationBytes: number;
  /** Room through which weights are streamed. */
  readonly slabBytes: number;
  /** Inputs, results and state of the request, copies to read through included. */
  readonly tensorBytes: number;
  /** Bytes of everything together. */
  readonly peakBytes: number;
}

/** What a request takes, stage by stage, in bytes. */
export interface MemoryReport {
  /** Bytes that may be taken, as far as the plan had to know. */
  readonly budgetBytes: number;
  /** Whether the request fits. */
  readonly fits: boolean;
  /** The most that is taken at once. */
  readonly peakBytes: number;
  /** Bytes of weights that each request brings to the device again. */
  readonly reloadedBytes: number;
  /** Bytes of results that wait in host memory between the passes that read them; left out where there are none. */
  readonly hostBytes?: number;
  /** Names of the components, in the order of use. */
  readonly components: readonly string[];
  /** Stages in the order in which they run. */
  readonly stages: readonly StageReport[];
  /** What a GPU hands to the others in each step, and takes from them; nothing for one that is alone. */
  readonly exchanged?: ExchangedBytes;
}

/** Puts a plan into numbers. */
export function describeMemory(
  { stages, kept, stateBytes, peakBytes, reloadedBytes, waiting }: ResidencyPlan,
  components: Components,
  budgetBytes: number,
): MemoryReport {
  const owners = weightOwners(components);
  const exchanged = exchangesOf(stages);
  return {
    ...(exchanged.count > 0 && { exchanged }),
    ...(waiting.size > 0 && { hostBytes: bytesOf(waiting) }),
    budgetBytes,
    fits: peakBytes <= budgetBytes,
    peakBytes,
    reloadedBytes,
    components: Object.keys(components),
    stages: stages.map(({ stage, plan, weights, streamed, own, readBytes, peakBytes }) => {
      const slabBytes = plan.slabBytes.reduce((sum, bytes) => sum + bytes, 0);
      const parts = Object.keys(components).map((name): ComponentReport => {
        const ofComponent = (tensors: ReadonlySet<DeviceTensor>) =>
          [...tensors].filter((weight) => owners.get(weight) === name);
        const held = ofComponent(weights);
        return {
          name,
          keptBytes: bytesOf(held.filter((weight) => kept.has(weight))),
          freedBytes: bytesOf(held.filter((weight) => !kept.has(weight))),
          streamedBytes: bytesOf(ofComponent(streamed)),
        };
      });
      return {
        name: stage.name,
        components: parts.filter(({ keptBytes, freedBytes, streamedBytes }) =>
          keptBytes + freedBytes + streamedBytes > 0
        ),
        activationBytes: plan.workspaceBytes - slabBytes,
        slabBytes,
        tensorBytes: stateBytes + bytesOf(own) + readBytes,
        peakBytes,
      };
    }),
  };
}

/** Exchanges of a step, in the stage that has the most. */
function exchangesOf(stages: ResidencyPlan["stages"]): ExchangedBytes {
  const all = stages.map(({ stage }) => {
    const own = Object.values(stage.graphs)
      .flatMap(({ exchanges }) => exchanges.filter(({ ranks }) => ranks > 1));
    return {
      count: own.length,
      broughtBytes: own.reduce((sum, { broughtBytes }) => sum + broughtBytes, 0),
      takenBytes: own.reduce((sum, { takenBytes }) => sum + takenBytes, 0),
    };
  });
  return all.reduce((most, own) => (own.count > most.count ? own : most));
}

/**
 * One line for each stage, one column for each component, and what the programs take beside weights.
 *
 * @returns lines without a line break at the end
 */
export function memoryTable(report: MemoryReport): string {
  const { components: names, stages, peakBytes, budgetBytes, fits, hostBytes } = report;
  const head = ["stage", ...names, "activations", "tensors", "together"];
  const rows = stages.map(({ name, components, activationBytes, slabBytes, ...stage }) => [
    name,
    ...names.map((other) => weightCell(components.find((component) => component.name === other))),
    size(activationBytes + slabBytes),
    size(stage.tensorBytes),
    size(stage.peakBytes),
  ]);
  const widths = head.map((_, i) => Math.max(...[head, ...rows].map((row) => row[i]!.length)));
  const lines = [head, ...rows].map((row) =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join("  ")
  );
  const room = budgetBytes > peakBytes ? ` into ${size(budgetBytes)}` : "";
  const verdict = fits ? `which fits${room}` : `which does not fit into ${size(budgetBytes)}`;
  const host = hostBytes ? `; results of ${size(hostBytes)} wait in host memory` : "";
  return [...lines, `At most ${size(peakBytes)} at a time, ${verdict}${host}`].join("\n");
}

function weightCell(component: ComponentReport | undefined): string {
  if (!component) return "-";
  const { keptBytes, freedBytes, streamedBytes } = component;
  const parts: string[] = [];
  if (keptBytes > 0) parts.push(`${size(keptBytes)} kept`);
  if (freedBytes > 0) {
    parts.push(`${size(freedBytes)} ${streamedBytes > 0 ? "held" : "freed after"}`);
  }
  if (streamedBytes > 0) parts.push(`${size(streamedBytes)} streamed`);
  return parts.join(", ");
}

/** Bytes with three digits that count. */
function size(bytes: number): string {
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}
