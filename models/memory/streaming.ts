/** Streams as few weights of a stage as possible, evenly among the others, so that the GPU computes while the next are read. */
import { type DeviceTensor, planSlabs } from "../../runtime/mod.ts";
import type { Stage } from "./session.ts";

/** Bytes of a segment where there is room: below it the wait for each counts, above it the reading of the first. */
const SEGMENT_BYTES = 128 * 1024 * 1024;
/** Part of the room for weights that a segment may take; there are two of them. */
const SEGMENT_SHARE = 1 / 6;
/** Weights below this share of all are not worth a read each: norms, biases and tables. */
const SMALL_SHARE = 1e-4;
/** Choices tried until one fits; each corrects what the one before missed. */
const MAX_ATTEMPTS = 6;

export interface StreamingChoice {
  readonly streamed: ReadonlySet<DeviceTensor>;
  readonly segmentBytes: number;
  readonly slabBytes: number;
}

/** Chooses what to stream, in the order of use, so that the rest and the slabs fit into `room`, or take least. */
export function planStreaming(
  { graphs }: Stage,
  weights: readonly DeviceTensor[],
  room: number,
): StreamingChoice {
  const total = bytesOf(weights);
  if (total <= room) return { streamed: new Set(), segmentBytes: 0, slabBytes: 0 };
  const large = weights.filter(({ byteLength, hasSource }) =>
    hasSource && byteLength >= total * SMALL_SHARE
  );
  const choose = (streamed: ReadonlySet<DeviceTensor>, segmentBytes: number): StreamingChoice => {
    const slabs = planSlabs(graphs, { streamed, segmentBytes });
    return { streamed, segmentBytes, slabBytes: slabs.reduce((sum, bytes) => sum + bytes, 0) };
  };
  const excessOf = ({ streamed, slabBytes }: StreamingChoice) =>
    total - bytesOf(streamed) + slabBytes - room;
  const segmentBytes = Math.min(SEGMENT_BYTES, Math.max(0, Math.floor(room * SEGMENT_SHARE)));
  let wanted = total - room + 2 * segmentBytes;
  for (let attempt = 0; attempt < MAX_ATTEMPTS && wanted < bytesOf(large); attempt++) {
    const choice = choose(spreadChoice(large, wanted), segmentBytes);
    const excess = excessOf(choice);
    if (excess <= 0) return choice;
    wanted = bytesOf(choice.streamed) + excess;
  }
  const all = choose(new Set(large), segmentBytes);
  return excessOf(all) <= 0 ? all : choose(all.streamed, 0);
}

export function bytesOf(tensors: Iterable<DeviceTensor>): number {
  let sum = 0;
  for (const { byteLength } of tensors) sum += byteLength;
  return sum;
}

function spreadChoice(weights: readonly DeviceTensor[], wanted: number): Set<DeviceTensor> {
  const share = wanted / bytesOf(weights);
  const chosen = new Set<DeviceTensor>();
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
