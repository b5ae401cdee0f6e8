/**
 * Streaming: weights that are not on the device are written into one of two slabs right before the work that uses
 * them. A program's dispatches are cut into segments whose weights fit a slab together; neighbouring segments take
 * turns with the slabs, so that one can be filled while the GPU works with the other. Everything happens in the order
 * of the queue, so nothing waits for a slab to be free.
 */
import type { Device } from "../device/device.ts";
import type { Dispatch } from "../graph/graph.ts";
import type { DeviceTensor } from "../device/device_tensor.ts";
import { roundUp } from "../shape.ts";
import type { TargetLimits } from "../target.ts";
import { type BufferWindow, cutIntoPieces } from "../windows.ts";

/** Slabs that segments take turns with. */
export const SLAB_COUNT = 2;

/** What the offset of a binding is a multiple of on every adapter, in bytes. */
const ALIGNMENT = 256;

/** A range of a slab that is bound by itself: which of its buffers, and where in there. */
export interface SlabRange {
  /** Which buffer of the slab. */
  readonly buffer: number;
  /** Offset of the range in the tensor, in bytes. */
  readonly offset: number;
  /** Bytes of the range. */
  readonly size: number;
}

/** Neighbouring dispatches whose streamed weights are on the device together. */
export interface Segment {
  /** Which slab holds its weights. */
  readonly slab: number;
  /** Places of the tensors in the slab. */
  readonly places: ReadonlyMap<DeviceTensor, readonly SlabRange[]>;
  /** Bytes of the slab that the tensors reach over. */
  readonly byteLength: number;
}

/** What is streamed, and how much of it may be on the device at a time. */
export interface StreamingOptions {
  /** Weights that get no memory of their own; each must have a source. */
  readonly streamed?: ReadonlySet<DeviceTensor>;
  /** Bytes that a segment's weights may take, beyond what a single dispatch needs in any case. */
  readonly segmentBytes?: number;
}

export function cutSegments(
  dispatches: readonly Dispatch[],
  { streamed = new Set(), segmentBytes = 0 }: StreamingOptions,
  limits: TargetLimits,
): (Segment | undefined)[] {
  const result: (Segment | undefined)[] = [];
  let count = 0;
  let open: SegmentBuilder | undefined;
  for (const dispatch of dispatches) {
    const wanted = streamedWeights(dispatch, streamed);
    if (wanted.length > 0 && !open?.add(wanted, segmentBytes)) {
      open = new SegmentBuilder(count++ % SLAB_COUNT, limits);
      open.add(wanted, Infinity);
    }
    result.push(open?.segment);
  }
  return result;
}

function streamedWeights(
  { label, kernel, tensors }: Dispatch,
  streamed: ReadonlySet<DeviceTensor>,
): DeviceTensor[] {
  const found: DeviceTensor[] = [];
  tensors.forEach(({ memory }, i) => {
    if ("id" in memory || !streamed.has(memory)) return;
    if (kernel.buffers[i]!.access !== "read" || !memory.hasSource) {
      throw new TypeError(
        `Cannot stream tensor "${memory.name}" to ${label}: ${
          memory.hasSource ? "it is written there" : "it cannot be read again"
        }`,
      );
    }
    found.push(memory);
  });
  return found;
}

class SegmentBuilder {
  readonly #limits: TargetLimits;
  readonly #places = new Map<DeviceTensor, readonly SlabRange[]>();
  readonly segment: { slab: number; places: Segment["places"]; byteLength: number };

  constructor(slab: number, limits: TargetLimits) {
    this.#limits = limits;
    this.segment = { slab, places: this.#places, byteLength: 0 };
  }

  /** Gives weights places behind the others; false, and nothing changed, when they would reach over `most` bytes. */
  add(weights: readonly DeviceTensor[], most: number): boolean {
    const places = new Map<DeviceTensor, readonly SlabRange[]>();
    let end = this.segment.byteLength;
    for (const weight of weights) {
      if (this.#places.has(weight) || places.has(weight)) continue;
      const ranges: SlabRange[] = [];
      for (const { size } of cutIntoPieces(weight.byteLength, this.#limits)) {
        const range = slabRange(end, size, this.#limits);
        ranges.push(range);
        end = range.buffer * slabBufferBytes(this.#limits) + range.offset +
          roundUp(size, ALIGNMENT);
      }
      places.set(weight, ranges);
    }
    if (places.size > 0 && end > most) return false;
    for (const [weight, ranges] of places) this.#places.set(weight, ranges);
    this.segment.byteLength = end;
    return true;
  }
}

/** The first place at or behind `start` where `size` bytes lie in one buffer. */
function slabRange(start: number, size: number, limits: TargetLimits): SlabRange {
  const bufferBytes = slabBufferBytes(limits);
  const buffer = Math.floor(start / bufferBytes);
  const offset = start - buffer * bufferBytes;
  return offset + size <= bufferBytes
    ? { buffer, offset, size }
    : { buffer: buffer + 1, offset: 0, size };
}

function slabBufferBytes({ maxBufferBytes }: TargetLimits): number {
  return Math.floor(maxBufferBytes / ALIGNMENT) * ALIGNMENT;
}

export class Slab {
  readonly #device: Device;
  readonly #buffers: GPUBuffer[] = [];
  #content: { readonly segment: Segment; readonly revisions: number } | undefined;

  constructor(device: Device, name: string, byteLength: number) {
    this.#device = device;
    const most = slabBufferBytes(device.target.limits);
    try {
      for (let start = 0; start < byteLength; start += most) {
        const bytes = Math.min(most, byteLength - start);
        this.#buffers.push(device.createBuffer(`${name}#${this.#buffers.length}`, bytes));
      }
    } catch (error) {
      this.destroy();
      throw error;
    }
  }

  /** Where a weight of a segment is bound. */
  windows(segment: Segment, weight: DeviceTensor): BufferWindow[] {
    return segment.places.get(weight)!.map(({ buffer, offset, size }) => ({
      buffer: this.#buffers[buffer]!,
      offset,
      size,
    }));
  }

  /** Queues the writes that bring a segment's weights here, unless they are here already. */
  load(segment: Segment): void {
    const weights = segment.places.keys();
    const revisions = weights.reduce((sum, { revision }) => sum + revision, 0);
    if (this.#content?.segment === segment && this.#content.revisions === revisions) return;
    this.#content = undefined;
    for (const weight of segment.places.keys()) {
      weight.fill(this.#device, this.windows(segment, weight));
    }
    this.#content = { segment, revisions };
  }

  destroy(): void {
    for (const buffer of this.#buffers.splice(0)) this.#device.destroyBuffer(buffer);
    this.#content = undefined;
  }
}
