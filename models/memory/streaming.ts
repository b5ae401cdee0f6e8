/**
 * Which weights of a stage are streamed. As few as possible, evenly among the others in the order of use: so the GPU
 * computes with those that stay while the next ones are read.
 */
import { type MemoryPlan, planMemory, type Resident } from "../../runtime/mod.ts";
import type { Stage } from "./stage.ts";

/** Bytes of a segment where there is room: below it the wait for each counts, above it the reading of the first. */
const SEGMENT_BYTES = 128 * 1024 * 1024;
/** Part of the room for weights that a segment may take; there are two of them. */
const SEGMENT_SHARE = 1 / 6;
/** Weights below this share of all are not worth a read each: norms, biases and tables. */
const SMALL_SHARE = 1e-4;
/** Choices tried until one fits; each corrects what the one before missed. */
const MAX_ATTEMPTS = 6;

/** A stage's plan, and what its programs find in slabs. */
export interface StreamingChoice {
  readonly plan: MemoryPlan;
  readonly streamed: ReadonlySet<Resident>;
}

/**
 * Chooses what to stream so that a stage fits.
 *
 * @param plan of the stage with all weights resident
 * @param weights that need not be resident, in the order of use
 * @param availableBytes for these and for the programs
 * @returns a plan that does not fit when nothing does: the one that takes least
 */
export function planStreaming(
  { graphs }: Stage,
  plan: MemoryPlan,
  weights: readonly Resident[],
  availableBytes: number,
): StreamingChoice {
  const total = bytesOf(weights);
  const room = availableBytes - plan.workspaceBytes;
  if (total <= room) return { plan, streamed: new Set() };
  const large = weights.filter(({ byteLength, hasSource }) =>
    hasSource && byteLength >= total * SMALL_SHARE
  );
  const segmentBytes = Math.min(SEGMENT_BYTES, Math.max(0, Math.floor(room * SEGMENT_SHARE)));
  let wanted = total - room + 2 * segmentBytes;
  for (let attempt = 0; attempt < MAX_ATTEMPTS && wanted < bytesOf(large); attempt++) {
    const streamed = spreadChoice(large, wanted);
    const chosen = { plan: planMemory(graphs, { streamed, segmentBytes }), streamed };
    const excess = total - bytesOf(streamed) + chosen.plan.workspaceBytes - availableBytes;
    if (excess <= 0) return chosen;
    wanted = bytesOf(streamed) + excess;
  }
  const streamed = new Set(large);
  const chosen = [segmentBytes, 0].map((bytes) => ({
    plan: planMemory(graphs, { streamed, segmentBytes: bytes }),
    streamed,
  }));
  const rest = total - bytesOf(large);
  return chosen.find(({ plan }) => rest + plan.workspaceBytes <= availableBytes) ?? chosen[1]!;
}

/** Bytes of all tensors together. */
export function bytesOf(residents: Iterable<Resident>): number {
  let sum = 0;
  for (const { byteLength } of residents) sum += byteLength;
  return sum;
}

/** Weights of at least `wanted` bytes together, as even as their sizes allow. */
function spreadChoice(weights: readonly Resident[], wanted: number): Set<Resident> {
  const share = wanted / bytesOf(weights);
  const chosen = new Set<Resident>();
  let due = 0;
  for (const weight of weights) {
    due += weight.byteLength * share;
    if (due <= weight.byteLength / 2) continue;
    chosen.add(weight);
    due -= weight.byteLength;
  }
  for (const weight of weights.toReversed()) {
    if (bytesOf(chosen) >= wanted) break;
    chosen.add(weight);
  }
  return chosen;
}
