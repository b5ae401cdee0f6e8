/** The tuning run: which variant of an op is the fastest here, class by class of problems. */
import type { Device } from "../device/device.ts";
import { OutOfMemoryError } from "../errors.ts";
import type { Race } from "../ops/op.ts";
import { RACES } from "../ops/registry.ts";
import { explainChoice, rank } from "../ops/variants.ts";
import { Stopwatch } from "../program/stopwatch.ts";
import type { MeasuredChoices, Target, VariantTiming } from "../target.ts";
import {
  type RaceClock,
  type RaceResult,
  raceTarget,
  runRace,
  sizeRace,
  traceRace,
} from "./race.ts";

/** What tuning runs found; `Device.applyTuning` takes it. */
export interface Tuning {
  /** Variants by op and class, the fastest first; none of a class that cannot be measured here. */
  readonly choices: MeasuredChoices;
  /** Variants that failed here, in sentences. */
  readonly excluded: readonly string[];
  /** Classes that are done, and all that there are: a later run goes on with the rest. */
  readonly classes: { readonly measured: number; readonly known: number };
  /** How long it took. */
  readonly seconds: number;
}

/** How a tuning run runs. */
export interface TuneOptions {
  /** Time after which no further race begins; one that runs then is dropped. */
  readonly budgetMs?: number;
  /** Races to run, in this order; all by default. */
  readonly races?: readonly Race[];
  /** What earlier runs found: its classes are not measured again. */
  readonly known?: Tuning | undefined;
  /** Called after each race: finished share and a line of text. */
  readonly onProgress?: (fraction: number, line: string) => void;
  /** Called after each race with all that is known by then. */
  readonly onResult?: (tuning: Tuning) => Promise<void>;
}

/** Time of a run by class of adapter: a software adapter compiles and computes an order of magnitude slower. */
export const TUNING_BUDGET_MS: Readonly<Record<Target["schedule"], number>> = {
  gpu: 20_000,
  cpu: 60_000,
};

/**
 * Races all variants on a device that does nothing else meanwhile. What is measured does not touch the device.
 *
 * A race that does not fit into the device's memory, or not into the budget of a whole run, counts as done without a
 * result; what comes after the budget is left for the next run.
 *
 * @throws {DeviceLostError} when a variant hangs the device
 */
export async function tune(device: Device, options: TuneOptions = {}): Promise<Tuning> {
  const target = raceTarget(device.target);
  const { races = RACES, budgetMs = TUNING_BUDGET_MS[target.schedule] } = options;
  const { known, onProgress, onResult } = options;
  const start = performance.now();
  const choices: Record<string, Record<string, readonly VariantTiming[]>> = {};
  for (const [op, classes] of Object.entries(known?.choices ?? {})) choices[op] = { ...classes };
  const excluded = [...known?.excluded ?? []];
  const all = races.map((race) => ({ race, choice: traceRace(race, target).choice }))
    .filter(({ choice }) => choice.candidates.length > 1);
  const left = all.filter(({ choice }) => !choices[choice.op]?.[choice.problemClass]);
  let measured = all.length - left.length;
  const found = (): Tuning => ({
    choices: structuredClone(choices),
    excluded: [...excluded],
    classes: { measured, known: all.length },
    seconds: (known?.seconds ?? 0) + (performance.now() - start) / 1000,
  });
  if (left.length === 0) return found();
  using stopwatch = await Stopwatch.open(device);
  const clock = { deadline: start + budgetMs, stopwatch };
  for (const [i, { race, choice }] of left.entries()) {
    if (performance.now() > clock.deadline) break;
    // What takes longer than a whole run would take as long at every start.
    const result = await runOrSkip(device, race, clock) ??
      (i === 0 ? { choice, timings: [], excluded: [] } : undefined);
    if (!result) continue;
    const { op, problemClass, candidates } = choice;
    const timings = rank(result.timings, candidates[0]!);
    (choices[op] ??= {})[problemClass] = timings;
    measured++;
    for (const { variant, reason } of result.excluded) {
      excluded.push(`${op} ${problemClass} as "${variant}": ${reason}`);
    }
    onProgress?.(measured / all.length, describeRace({ ...result, timings }, target));
    await onResult?.(found());
  }
  return found();
}

/** Nothing when the time ended first. */
async function runOrSkip(
  device: Device,
  race: Race,
  clock: RaceClock,
): Promise<RaceResult | undefined> {
  try {
    return await runRace(device, await sizeRace(device, race, clock), clock);
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
    const { choice } = traceRace(race, raceTarget(device.target));
    return { choice, timings: [], excluded: [] };
  }
}

function describeRace({ choice, timings }: RaceResult, target: Target): string {
  const { op, problemClass } = choice;
  const [best] = timings;
  if (!best) return `${op} ${problemClass}: not measured`;
  const variant = best.variant;
  const why = explainChoice({ ...choice, variant, reason: "measured", timings }, target.schedule);
  return `${op} ${problemClass}: ${variant} (${why})`;
}

/** The variant of an op for one class of problems. */
export interface KernelChoice {
  /** Name of the op. */
  readonly op: string;
  /** Class of the problem, in words. */
  readonly problemClass: string;
  /** Name of the variant. */
  readonly variant: string;
  /** Why, in a few words. */
  readonly why: string;
}

/** The choices for every class that a tuning run knows, ordered by op. */
export function listChoices(target: Target): KernelChoice[] {
  const choices = RACES.map((race) => traceRace(race, target).choice);
  return [...Map.groupBy(choices, ({ op }) => op).values()].flat().map((choice) => ({
    op: choice.op,
    problemClass: choice.problemClass,
    variant: choice.variant,
    why: explainChoice(choice, target.schedule),
  }));
}
