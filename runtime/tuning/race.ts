/** One race: all variants of an op compute one problem in turn, and the clock decides. */
import type { Device } from "../device/device.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { DeviceLostError, OutOfMemoryError } from "../errors.ts";
import { Graph } from "../graph/graph.ts";
import { copyTo } from "../ops/copy/mod.ts";
import type { Race, RaceInput } from "../ops/op.ts";
import { fillRandom } from "../ops/sample_blocks.ts";
import { type Executable, instantiate } from "../program/executable.ts";
import { planMemory } from "../program/plan.ts";
import type { Stopwatch } from "../program/stopwatch.ts";
import type { Choice, Target, VariantTiming } from "../target.ts";
import type { BufferWindow } from "../windows.ts";

export interface RaceResult {
  /** What was chosen before the race, with the class and the variants that ran. */
  readonly choice: Choice;
  /** The fastest first. */
  readonly timings: readonly VariantTiming[];
  readonly excluded: readonly { readonly variant: string; readonly reason: string }[];
}

export interface RaceClock {
  /** When to stop, in the time of `performance.now()`. */
  readonly deadline: number;
  readonly stopwatch: Stopwatch;
}

/** Time that one call of the rule's variant should take at least: shorter ones tell of launches, not of kernels. */
const CALL_MS = 1.5;
/** How many times as much work a problem is grown to, and the bytes of its inputs. */
const MAX_GROWTH = 1024;
const MAX_INPUT_BYTES = 256e6;
/** Further measurements of variants that may still win after the first one. */
const ROUNDS = 2;
/** A variant that is this much slower than the leader has lost; in its first run, which may be slow, by more. */
const LOST = 1.3;
const LOST_AT_FIRST = 4;

interface Entrant {
  readonly variant: string;
  readonly program: Executable;
  readonly free: () => void;
  /** Milliseconds of one call. */
  best: number;
}

/** One race has every variant that any quality may use; `chooseVariant()` takes the fastest of those that fit. */
export function raceTarget(target: Target): Target {
  return { ...target, operands: "int8", choices: {} };
}

/** Traces a race and gives the choice of its op. */
export function traceRace(race: Race, target: Target): { choice: Choice; graph: Graph } {
  const heard: Choice[] = [];
  const graph = new Graph(race.op, { ...target, onChoice: (choice) => heard.push(choice) });
  race.build(...race.inputs.map((input) => graph.use(declare(input))));
  return { choice: heard.find(({ op }) => op === race.op)!, graph };
}

/** With a problem of the race's class that is large enough for this device, by the time of the rule's variant. */
export async function sizeRace(device: Device, race: Race, clock: RaceClock): Promise<Race> {
  const { grow } = race;
  // Software adapters are slow enough for the races as they are.
  if (!grow || device.adapter.isSoftware) return race;
  const target = raceTarget(device.target);
  const { choice } = traceRace(race, target);
  const entrants: Entrant[] = [];
  const inputs = race.inputs.map(declare);
  let milliseconds = Infinity;
  try {
    allocateInputs(device, race, inputs);
    await enter(device, race, choice.candidates[0]!, inputs, entrants, clock);
    for (const { program } of entrants) {
      milliseconds = await clock.stopwatch.time(program, { rounds: 1 });
    }
  } catch (error) {
    if (!isOfVariant(error)) throw error;
  } finally {
    for (const { free } of entrants) free();
    for (const input of inputs) input.destroy();
  }
  for (let factor = Math.min(MAX_GROWTH, CALL_MS / milliseconds); factor >= 2; factor /= 2) {
    const grown = { ...race, inputs: grow(factor) };
    const bytes = grown.inputs.reduce((sum, input) => sum + declare(input).byteLength, 0);
    if (bytes > Math.min(MAX_INPUT_BYTES, device.availableBytes / 4)) continue;
    const { problemClass, candidates } = traceRace(grown, target).choice;
    const isAlike = problemClass === choice.problemClass &&
      candidates.toSorted().join() === choice.candidates.toSorted().join();
    if (isAlike) return grown;
  }
  return race;
}

export async function runRace(
  device: Device,
  race: Race,
  clock: RaceClock,
): Promise<RaceResult | undefined> {
  const { choice } = traceRace(race, raceTarget(device.target));
  const excluded: { variant: string; reason: string }[] = [];
  const entrants: Entrant[] = [];
  const inputs = race.inputs.map(declare);
  const samples: Float32Array[] = [];
  try {
    allocateInputs(device, race, inputs);
    for (const variant of choice.candidates) {
      if (isOver(clock)) return undefined;
      try {
        const sample = await enter(device, race, variant, inputs, entrants, clock);
        if (!sample) return undefined;
        samples.push(sample);
      } catch (error) {
        if (!isOfVariant(error)) throw error;
        excluded.push({ variant, reason: (error as Error).message });
      }
    }
    for (const i of findOutliers(samples).reverse()) {
      const [{ variant, free }] = entrants.splice(i, 1) as [Entrant];
      free();
      excluded.push({ variant, reason: "its result differs from that of the other variants" });
    }
    if (!(await measure(entrants, clock))) return undefined;
    const timings = entrants.map(({ variant, best }) => ({ variant, microseconds: best * 1000 }))
      .sort((a, b) => a.microseconds - b.microseconds);
    return { choice, timings, excluded };
  } finally {
    for (const { free } of entrants) free();
    for (const tensor of inputs) tensor.destroy();
  }
}

/** Compiles a variant, runs it once and reads a sample of its result; it then is the last of `entrants`. */
async function enter(
  device: Device,
  race: Race,
  variant: string,
  inputs: readonly DeviceTensor[],
  entrants: Entrant[],
  clock: RaceClock,
): Promise<Float32Array | undefined> {
  const target = { ...raceTarget(device.target), forcedVariants: { [race.op]: variant } };
  const graph = new Graph(`${race.op} race`, target);
  const y = race.build(...inputs.map((input) => graph.use(input)));
  const output = new DeviceTensor("result", y.shape);
  copyTo(y, output);
  output.allocate(device);
  const programs = await instantiate(planMemory({ race: graph }), device).catch((error) => {
    output.destroy();
    throw error;
  });
  const free = () => {
    programs.destroy();
    output.destroy();
  };
  try {
    const program = programs.get("race");
    for (let i = 0; i < program.submits.length && !isOver(clock); i++) {
      device.submit([program.encode(i)]);
      await device.wait();
    }
    const sample = isOver(clock) ? undefined : await readSample(device, output);
    if (sample) entrants.push({ variant, program, free, best: Infinity });
    else free();
    return sample;
  } catch (error) {
    free();
    throw error;
  }
}

/** Measures all; false when the time ended before all were measured once. */
async function measure(entrants: readonly Entrant[], clock: RaceClock): Promise<boolean> {
  const { stopwatch, deadline } = clock;
  const leader = () => Math.min(...entrants.map(({ best }) => best));
  const measureOne = async (entrant: Entrant, rounds: number) => {
    const giveUpMs = LOST_AT_FIRST * leader();
    const time = await stopwatch.time(entrant.program, { rounds, giveUpMs, deadline });
    entrant.best = Math.min(entrant.best, time);
  };
  for (const entrant of entrants) {
    if (isOver(clock)) return false;
    await measureOne(entrant, 1);
  }
  const limit = LOST * leader();
  const running = entrants.filter(({ best }) => best <= limit);
  if (running.length === 1) return true;
  for (const entrant of running) {
    if (!isOver(clock)) await measureOne(entrant, ROUNDS);
  }
  return true;
}

/** Places of a result that are compared, and the bytes at each. */
const SAMPLES = 16;
const SAMPLE_BYTES = 4096;

/** Parts of a result, evenly over it; all of a small one. */
async function readSample(device: Device, output: DeviceTensor): Promise<Float32Array> {
  const windows = output.windows.flatMap((window): BufferWindow[] => {
    if (window.size <= SAMPLES * SAMPLE_BYTES) return [window];
    const step = Math.floor((window.size - SAMPLE_BYTES) / (SAMPLES - 1) / 4) * 4;
    return Array.from({ length: SAMPLES }, (_, i) => ({
      buffer: window.buffer,
      offset: window.offset + i * step,
      size: SAMPLE_BYTES,
    }));
  });
  const bytes = await device.read(windows);
  return new Float32Array(bytes.buffer, 0, Math.floor(bytes.byteLength / 4));
}

/** A variant may fail to compile, or need more bindings than there are; a lost device or full memory is no fault of it. */
function isOfVariant(error: unknown): boolean {
  return !(error instanceof DeviceLostError || error instanceof OutOfMemoryError);
}

function isOver({ deadline }: RaceClock): boolean {
  return performance.now() > deadline;
}

function declare({ shape, dtype }: RaceInput): DeviceTensor {
  return new DeviceTensor("input", shape, dtype);
}

function allocateInputs(device: Device, race: Race, inputs: readonly DeviceTensor[]): void {
  inputs.forEach((tensor, i) => fillRandom(tensor.allocate(device), race.inputs[i]!.magnitude, i));
}

/** Comparing what the variants of an op compute: a glance that finds a broken kernel, not a test of accuracy. */

/** Part of the largest magnitude: more than variants differ that round to 8 bits, far less than a wrong kernel. */
const TOLERANCE = 0.03;

/** Results that differ from the one that most others agree with; among equals the first counts. */
export function findOutliers(results: readonly Float32Array[]): number[] {
  const agrees = results.map((a) => results.map((b) => difference(a, b) <= TOLERANCE));
  const votes = agrees.map((row) => row.filter((agreed) => agreed).length);
  const trusted = votes.indexOf(Math.max(...votes));
  return [...results.keys()].filter((i) => !agrees[trusted]![i]);
}

/** Largest difference as a part of the largest magnitude; infinite where either is no finite number. */
function difference(a: Float32Array, b: Float32Array): number {
  let largest = 1e-30;
  let worst = 0;
  for (let i = 0; i < a.length; i++) {
    const gap = Math.abs(a[i]! - b[i]!);
    if (!Number.isFinite(gap)) return Infinity;
    if (gap > worst) worst = gap;
    largest = Math.max(largest, Math.abs(a[i]!), Math.abs(b[i]!));
  }
  return worst / largest;
}
