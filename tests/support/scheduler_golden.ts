/** Goldens of the schedulers, and the stand-in for a transformer that they were made with. */
import assert from "node:assert/strict";
import type { ScheduleOptions } from "../../models/schedulers/schedule.ts";

/** One schedule of the reference, and what it makes of samples. */
export interface SchedulerCase {
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly steps: number;
  readonly options: ScheduleOptions;
  readonly timesteps: readonly number[];
  readonly sigmas: readonly number[];
  /** Drawn for each step, where the sampler draws. */
  readonly noise?: readonly (readonly number[])[];
}

/** A golden of `tests/goldens/schedulers`; its cases have `Results` too. */
export interface SchedulerGolden<Results> {
  /** The sample before the first step. */
  readonly start: readonly number[];
  readonly cases: readonly (SchedulerCase & Results)[];
}

/** Reads a golden by the name of its file. */
export function schedulerGolden<Results>(name: string): SchedulerGolden<Results> {
  const path = new URL(`../goldens/schedulers/${name}.json`, import.meta.url);
  return JSON.parse(Deno.readTextFileSync(path));
}

/** What the transformer says of a sample at step `i`; that of `tools/reference/schedulers.py`. */
export function model(sample: Float64Array, i: number): Float64Array {
  return sample.map((x, j) => 0.4 * x + Math.cos(1.3 * i + 0.7 * j));
}

/** Accepts a value whose error, as a part of the expected one where that is above 1, is below `bound`. */
export function close(actual: number, expected: number, bound: number, label: string): void {
  const error = Math.abs(actual - expected) / Math.max(1, Math.abs(expected));
  assert.ok(error < bound, `${label}: ${actual}, not ${expected} (error ${error})`);
}
