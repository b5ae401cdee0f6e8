/**
 * Weights of the next stages, read into host memory while the GPU is at work on the last programs of this one. Where
 * stages are large, such as the two experts of Wan 2.2 A14B, that takes the disk out of the pause between them.
 *
 * An adapter that takes the system's memory leaves none for a second copy, and its last programs may take half an hour,
 * in which others want memory. There the system's cache of files alone has what was read: it gives way.
 */
import { type Device, type DeviceTensor, freeHostBytes } from "../../runtime/mod.ts";
import type { ResidencyPlan } from "./residency.ts";
import type { Stage } from "./session.ts";

/** Part of the free host memory that is read: the system's cache of the file wants some beside copies. */
const HOST_SHARE = 0.5;

/** Reads the weights of the next stages into host memory while the GPU works. */
export class ReadAhead {
  readonly #isCopied: boolean;
  readonly #read = new Set<DeviceTensor>();

  /** Nothing is read yet. */
  constructor({ adapter }: Device) {
    this.#isCopied = !adapter.isUnified;
  }

  /** Reads weight after weight, in the order of use, as far as there is room. */
  *pieces({ stages }: ResidencyPlan, stage: Stage): Generator<void, void> {
    const next = stages.slice(stages.findIndex((planned) => planned.stage === stage) + 1);
    const loop = next.findIndex(({ stage }) => stage.repeats > 1);
    const weights = new Set(
      next.slice(0, loop < 0 ? next.length : loop + 1).flatMap(({ weights }) => [...weights]),
    );
    let room = freeHostBytes() * HOST_SHARE;
    for (const weight of weights) {
      if (weight.isAllocated || weight.hasHostCopy || this.#read.has(weight)) continue;
      room -= weight.byteLength;
      if (room < 0) return;
      weight.readAhead(this.#isCopied);
      this.#read.add(weight);
      yield;
    }
  }

  /** Drops the copies that nothing took. */
  release(): void {
    for (const weight of this.#read) if (!weight.isPinned) weight.unpin();
    this.#read.clear();
  }
}
