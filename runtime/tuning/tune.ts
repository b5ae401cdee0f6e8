/** The tuning run: which variant of an op is the fastest here, class by class of problems. */
import type { Device } from "../device.ts";
import { OutOfMemoryError } from "../errors.ts";
import { explainChoice } from "../ops/variants.ts";
import type { MeasuredChoices, Target } from "../target.ts";
import { calibrateSubmits, rank } from "./calibrate.ts";
import { measureIdle, type RaceResult, runRace, traceRace } from "./race.ts";
import type { Race } from "../ops/op.ts";
import { RACES } from "../ops/registry.ts";

/** What a tuning run found; `Device.applyTuning` takes it. */
export interface Tuning {
  /** Variants by op and class, the preferred first. */
  readonly choices: MeasuredChoices;
  /** Work of about a tenth of a second here. */
  readonly submitBudget: Target["submitBudget"];
  /** Variants that failed here, in sentences. */
  readonly excluded: readonly string[];
  /** Classes that were measured, and those that could have been. */
  readonly classes: { readonly measured: number; readonly known: number };
  /** How long it took. */
  readonly seconds: number;
}

/** How a tuning run runs. */
export interface TuneOptions {
  /** Time after which no further race begins; one that runs then is dropped. */
  readonly budgetMs?: number;
  /** Races to run, in this order; all when left out. */
  readonly races?: readonly Race[];
  /** Called after each race: finished share and a line of text. */
  readonly onProgress?: (fraction: number, line: string) => void;
}

/** Time of a run by class of adapter: a software adapter compiles and computes an order of magnitude slower. */
export const TUNING_BUDGET_MS: Readonly<Record<Target["schedule"], number>> = {
  gpu: 20_000,
  cpu: 60_000,
};

/**
 * Races all variants on a device that does nothing else meanwhile. What is measured does not touch the device.
 *
 * A race that does not fit into the device's memory is left out, and so is what comes after the budget.
 *
 * @throws {DeviceLostError} when a variant hangs the device
 */
export async function tune(device: Device, options: TuneOptions = {}): Promise<Tuning> {
  const { target } = device;
  const { races = RACES, budgetMs = TUNING_BUDGET_MS[target.schedule], onProgress } = options;
  const start = performance.now();
  const clock = { deadline: start + budgetMs, idle: await measureIdle(device) };
  const open = races.filter((race) => traceRace(race, target).choice.candidates.length > 1);
  const results: RaceResult[] = [];
  const choices: Record<string, Record<string, MeasuredChoices[string][string]>> = {};
  for (const [i, race] of open.entries()) {
    if (performance.now() > clock.deadline) break;
    const result = await runOrSkip(device, race, clock);
    if (!result) continue;
    results.push(result);
    const { op, problemClass, candidates } = result.choice;
    const timings = rank(result.timings, candidates[0]!);
    (choices[op] ??= {})[problemClass] = timings;
    onProgress?.((i + 1) / open.length, describeRace({ ...result, timings }, target));
  }
  return {
    choices,
    submitBudget: calibrateSubmits(results, target.submitBudget),
    excluded: results.flatMap(({ choice: { op, problemClass }, excluded }) =>
      excluded.map(({ variant, reason }) => `${op} ${problemClass} as "${variant}": ${reason}`)
    ),
    classes: { measured: results.length, known: open.length },
    seconds: (performance.now() - start) / 1000,
  };
}

async function runOrSkip(
  device: Device,
  race: Race,
  clock: Parameters<typeof runRace>[2],
): Promise<RaceResult | undefined> {
  try {
    return await runRace(device, race, clock);
  } catch (error) {
    if (error instanceof OutOfMemoryError) return undefined;
    throw error;
  }
}

function describeRace({ choice, timings }: RaceResult, target: Target): string {
  const { op, problemClass } = choice;
  const [best] = timings;
  if (!best) return `${op} ${problemClass}: no variant works`;
  const variant = best.variant;
  const why = explainChoice({ ...choice, variant, reason: "measured", timings }, target.schedule);
  return `${op} ${problemClass}: ${variant} (${why})`;
}
