/** What takes part in a comparison: ours, its peers, and what measures them alike. */

import type { Repeatable } from "../turns.ts";
import type { OpCase } from "./cases.ts";

/** An op at one size, ready to run again and again on inputs that are already where they are computed with. */
export interface PreparedOp extends Repeatable {
  /** The result of the last run, in our layout. */
  result(): Promise<Float32Array>;
  /** Frees what it holds. */
  destroy(): void | Promise<void>;
}

/** A library or program that computes the ops. */
export interface Contender {
  /** How tables name it. */
  readonly name: string;
  /**
   * Brings an op's inputs, in our layouts, to where they are computed with.
   *
   * @throws {Error} when it cannot compute the op
   */
  prepare(op: OpCase, inputs: readonly Float32Array[]): Promise<PreparedOp>;
  /** Ends it. */
  close(): void | Promise<void>;
}

/** Work of one run, so that the cost of a call does not count. */
const RUN_FLOPS = 5e7;

/** How often a run should compute an op. */
export function copiesOf({ flops }: OpCase, most: number): number {
  return Math.max(1, Math.min(most, Math.ceil(RUN_FLOPS / flops)));
}
