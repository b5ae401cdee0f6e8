/** Goldens of the schedulers, and the stand-in for a transformer that they were made with. */
import assert from "node:assert/strict";
import { readsNoise, type Schedule, type ScheduleOptions } from "../../models/schedulers/mod.ts";
import { applyStep } from "./apply_step.ts";

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
export function schedulerGolden<Results, Others = unknown>(
  name: string,
): SchedulerGolden<Results> & Others {
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

/**
 * Runs a schedule as `tools/reference/diffusion_schedulers.py` does, with its network and noise.
 *
 * @param seen is given what the network sees at each step
 */
export function follow(
  schedule: Schedule,
  sample: Float64Array,
  seen: (i: number, input: Float64Array) => void = () => {},
): void {
  const tensors: Record<string, Float64Array> = { sample };
  // NaN in every slot shows that none is read before it is written.
  for (let slot = 0; slot < schedule.history; slot++) {
    tensors[`history${slot}`] = new Float64Array(sample.length).fill(NaN);
  }
  let draws = 0;
  schedule.timesteps.forEach((timestep, i) => {
    const input = sample.map((x) => x * schedule.inputScale(i));
    seen(i, input);
    tensors["output"] = input.map((x, j) => 0.4 * x + Math.cos(0.01 * timestep + 0.7 * j));
    if (readsNoise(schedule.step(i))) {
      const draw = draws++;
      tensors["noise"] = sample.map((_, j) => Math.sin(1.7 * draw + 0.9 * j + 0.3));
    }
    applyStep(schedule.step(i), tensors);
  });
}
