/** Fair measurement: equal results first, then rounds in which everybody takes a turn. */

import { Turns } from "../turns.ts";
import { makeInputs } from "../../../report/op_cases.ts";
import type { OpCase } from "./cases.ts";
import type { Contender, PreparedOp } from "./contender.ts";

/** How long to measure. */
interface MeasureOptions {
  /** Turns of each; the best one counts. */
  readonly rounds: number;
  /** Least time of one turn, in milliseconds. */
  readonly turnMs: number;
  /** After this time no further round but the first is begun; in milliseconds. */
  readonly limitMs: number;
  /** The clock, in milliseconds. */
  readonly now: () => number;
}

/** Enough for a best within a few seconds per op; slow ones get fewer rounds. */
export const MEASURE_OPTIONS: MeasureOptions = {
  rounds: 5,
  turnMs: 60,
  limitMs: 12_000,
  now: () => performance.now(),
};

/** What one contender did with one op. */
export interface Measurement {
  readonly name: string;
  /** Best time of one call in milliseconds; none where it cannot compute the op, or not the same. */
  readonly milliseconds: number | undefined;
  /** Largest difference to the first contender's result, as a share of the largest element. */
  readonly maxError: number | undefined;
  /** Why there is no time. */
  readonly reason: string | undefined;
}

/** Where results are no longer equal: f32 sums of some thousand products in another order differ by less. */
const TOLERANCE = 1e-4;

interface Entry {
  readonly name: string;
  readonly prepared: PreparedOp;
  readonly maxError: number;
  readonly turns: Turns;
}

/**
 * Compares contenders on one op. All of them get the same inputs; the first one's result is what the others' are
 * compared with, and who differs is not timed. The time of an empty wait is taken off.
 */
export async function compareOp(
  contenders: readonly Contender[],
  op: OpCase,
  options: MeasureOptions = MEASURE_OPTIONS,
): Promise<Measurement[]> {
  const { rounds, turnMs, limitMs, now } = options;
  const start = now();
  const inputs = makeInputs(op);
  const entries: Entry[] = [];
  const failed = new Map<string, Measurement>();
  let expected: Float32Array | undefined;
  try {
    for (const contender of contenders) {
      const { name } = contender;
      try {
        const { prepared, result } = await firstRun(contender, op, inputs);
        const error = maxError(result, expected ??= result);
        if (error <= TOLERANCE) {
          entries.push({ name, prepared, maxError: error, turns: new Turns(prepared, now) });
          continue;
        }
        await prepared.destroy();
        const reason = `its result differs by ${error.toExponential(1)} of the largest element`;
        failed.set(name, { name, milliseconds: undefined, maxError: error, reason });
      } catch (error) {
        // Without ours there is nothing to compare with.
        if (expected === undefined) throw error;
        const reason = error instanceof Error ? error.message : String(error);
        failed.set(name, { name, milliseconds: undefined, maxError: undefined, reason });
      }
    }
    for (const { turns } of entries) await turns.calibrate(turnMs);
    for (let round = 0; round < rounds; round++) {
      if (round >= 1 && now() - start > limitMs) break;
      for (const { turns } of entries) await turns.take();
    }
  } finally {
    for (const { prepared } of entries) await prepared.destroy();
  }
  return contenders.map(({ name }) => {
    const entry = entries.find((each) => each.name === name);
    if (!entry) return failed.get(name)!;
    const { turns, maxError } = entry;
    return { name, milliseconds: turns.best, maxError, reason: undefined };
  });
}

/**
 * Largest difference between two results, as a share of the largest element of the second.
 *
 * @returns `Infinity` where their lengths differ or an element is NaN
 */
export function maxError(actual: Float32Array, expected: Float32Array): number {
  if (actual.length !== expected.length) return Infinity;
  let largest = 0;
  let difference = 0;
  for (let i = 0; i < expected.length; i++) {
    largest = Math.max(largest, Math.abs(expected[i]!));
    difference = Math.max(difference, Math.abs(actual[i]! - expected[i]!));
  }
  if (Number.isNaN(difference)) return Infinity;
  return difference === 0 ? 0 : difference / largest;
}

async function firstRun(contender: Contender, op: OpCase, inputs: readonly Float32Array[]) {
  const prepared = await contender.prepare(op, inputs);
  try {
    await prepared.run(1);
    return { prepared, result: await prepared.result() };
  } catch (error) {
    await prepared.destroy();
    throw error;
  }
}
