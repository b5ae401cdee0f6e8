/** One race: all variants of an op compute one problem in turn, and the clock decides. */
import type { Device } from "../device.ts";
import { Graph, type Tensor } from "../graph.ts";
import { DeviceLostError, OutOfMemoryError } from "../errors.ts";
import { copyTo } from "../ops/copy/mod.ts";
import { sampleBlocks } from "../ops/sample_blocks.ts";
import { planMemory } from "../plan.ts";
import { type ExecutableSet, instantiate } from "../executable.ts";
import { isWeightFormat } from "../quantization/formats.ts";
import { DeviceTensor } from "../device_tensor.ts";
import { elementCount } from "../shape.ts";
import type { Choice, Target, VariantTiming } from "../target.ts";
import { findOutliers } from "./agreement.ts";
import type { Race, RaceInput } from "../ops/op.ts";

/** How a race ended. */
export interface RaceResult {
  /** What was chosen before the race, with the class and the variants that ran. */
  readonly choice: Choice;
  /** The fastest first. */
  readonly timings: readonly VariantTiming[];
  /** Variants that cannot be used here, and why. */
  readonly excluded: readonly { readonly variant: string; readonly reason: string }[];
  /** Arithmetic operations of one call. */
  readonly flops: number;
  /** Bytes of the tensors of one call. */
  readonly bytes: number;
}

/** The clock of a run. */
interface RaceClock {
  /** When to stop, in the time of `performance.now()`. */
  readonly deadline: number;
  /** Milliseconds of a wait for nothing. */
  readonly idle: number;
}

/** Least time of one measurement, against the sleep in Deno's waits. */
const MEASURED_MS = 15;
const MAX_ROUNDS = 3;
/** A variant that is this much slower than the leader after a round has lost. */
const LOST = 1.3;
/** Share of a submit's budget that one program of calls takes, and the most calls in it. */
const PROGRAM_SHARE = 0.05;
const MAX_CALLS = 64;
const MAX_SUBMITS = 64;

interface Entrant {
  readonly variant: string;
  readonly programs: ExecutableSet;
  readonly calls: number;
  submits: number;
  /** Milliseconds of one call. */
  best: number;
}

/** Traces a race and gives the choice of its op. */
export function traceRace(race: Race, target: Target): { choice: Choice; graph: Graph } {
  const heard: Choice[] = [];
  const graph = new Graph(race.op, { ...target, onChoice: (choice) => heard.push(choice) });
  race.build(...race.inputs.map((input) => graph.use(declare(input))));
  return { choice: heard.find(({ op }) => op === race.op)!, graph };
}

/**
 * Runs a race.
 *
 * @returns nothing when the time ended before every variant was measured once
 * @throws {OutOfMemoryError} when the tensors do not fit
 * @throws {DeviceLostError} when a variant hangs the device
 */
export async function runRace(
  device: Device,
  race: Race,
  clock: RaceClock,
): Promise<RaceResult | undefined> {
  const { choice, graph } = traceRace(race, device.target);
  const result = { choice, flops: total(graph, "flops"), bytes: total(graph, "bytes") };
  const excluded: { variant: string; reason: string }[] = [];
  const entrants: Entrant[] = [];
  const inputs = race.inputs.map(declare);
  const outputs: Float32Array[] = [];
  try {
    for (const [i, tensor] of inputs.entries()) {
      fill(tensor.allocate(device), race.inputs[i]!, i);
    }
    for (const variant of choice.candidates) {
      if (isOver(clock)) return undefined;
      try {
        const output = await enter(device, race, variant, inputs, entrants, clock);
        if (!output) return undefined;
        outputs.push(output);
      } catch (error) {
        if (!isOfVariant(error)) throw error;
        excluded.push({ variant, reason: (error as Error).message });
      }
    }
    for (const i of findOutliers(outputs).reverse()) {
      const [{ variant, programs }] = entrants.splice(i, 1) as [Entrant];
      programs.destroy();
      excluded.push({ variant, reason: "its result differs from that of the other variants" });
    }
    if (!(await measure(device, entrants, clock))) return undefined;
    const timings = entrants.map(({ variant, best }) => ({ variant, microseconds: best * 1000 }))
      .sort((a, b) => a.microseconds - b.microseconds);
    return { ...result, timings, excluded };
  } finally {
    for (const { programs } of entrants) programs.destroy();
    for (const tensor of inputs) tensor.destroy();
  }
}

/**
 * Compiles a variant, runs it once and reads its result; it then is the last of `entrants`.
 *
 * @returns nothing when the time ended on the way
 */
async function enter(
  device: Device,
  race: Race,
  variant: string,
  inputs: readonly DeviceTensor[],
  entrants: Entrant[],
  clock: RaceClock,
): Promise<Float32Array | undefined> {
  const { submitBudget } = device.target;
  const target = { ...device.target, forcedVariants: { [race.op]: variant } };
  const call = (graph: Graph): Tensor => race.build(...inputs.map((input) => graph.use(input)));
  const check = new Graph(`${race.op} check`, target);
  const y = call(check);
  const share = total(check, "flops") / submitBudget.flops +
    total(check, "bytes") / submitBudget.bytes;
  const calls = Math.min(MAX_CALLS, Math.ceil(PROGRAM_SHARE / share));
  const output = new DeviceTensor("result", y.shape);
  copyTo(y, output);
  const timed = new Graph(`${race.op} race`, target);
  for (let i = 0; i < calls; i++) call(timed);
  output.allocate(device);
  try {
    const programs = await instantiate(planMemory({ check, timed }), device);
    try {
      const program = programs.get("check");
      for (let i = 0; i < program.submits.length && !isOver(clock); i++) {
        device.submit([program.encode(i)]);
        await device.wait();
      }
      const result = isOver(clock) ? undefined : await output.readFloat32();
      if (result) entrants.push({ variant, programs, calls, submits: 1, best: Infinity });
      else programs.destroy();
      return result;
    } catch (error) {
      programs.destroy();
      throw error;
    }
  } finally {
    output.destroy();
  }
}

/** Measures in rounds, one after the other in each; false when the time ended before all were measured once. */
async function measure(
  device: Device,
  entrants: readonly Entrant[],
  clock: RaceClock,
): Promise<boolean> {
  for (const entrant of entrants) {
    if (isOver(clock)) return false;
    const first = Math.max(0.1, await timeSubmits(device, entrant) - clock.idle);
    entrant.submits = Math.min(MAX_SUBMITS, Math.ceil(MEASURED_MS / first));
    // A shorter time only says how many submits make a longer one.
    if (entrant.submits === 1) entrant.best = first / entrant.calls;
  }
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const leader = Math.min(...entrants.map(({ best }) => best));
    const hasLost = ({ best }: Entrant) => best !== Infinity && best > LOST * leader;
    const running = entrants.filter((entrant) => !hasLost(entrant));
    if (running.length === 1 && round > 0) break;
    for (const entrant of running) {
      if (isOver(clock)) return entrants.every(({ best }) => best !== Infinity);
      const calls = entrant.submits * entrant.calls;
      const time = Math.max(1e-3, await timeSubmits(device, entrant) - clock.idle) / calls;
      entrant.best = Math.min(entrant.best, time);
    }
  }
  return true;
}

/** Milliseconds from the first submit until the GPU is done. */
async function timeSubmits(device: Device, { programs, submits }: Entrant): Promise<number> {
  const program = programs.get("timed");
  const start = performance.now();
  for (let i = 0; i < submits; i++) program.submit();
  await device.wait();
  return performance.now() - start;
}

/** What a wait costs when there is nothing to wait for, in milliseconds: Deno sleeps in it. */
export async function measureIdle(device: Device): Promise<number> {
  let best = Infinity;
  for (let i = 0; i < 5; i++) {
    const start = performance.now();
    device.flush();
    await device.wait();
    best = Math.min(best, performance.now() - start);
  }
  return best;
}

/** A variant may fail to compile, or need more bindings than there are; a lost device or full memory is no fault of it. */
function isOfVariant(error: unknown): boolean {
  return !(error instanceof DeviceLostError || error instanceof OutOfMemoryError);
}

function total(graph: Graph, work: "flops" | "bytes"): number {
  return graph.dispatches.reduce((sum, dispatch) => sum + dispatch[work], 0);
}

function isOver({ deadline }: RaceClock): boolean {
  return performance.now() > deadline;
}

function declare({ shape, dtype }: RaceInput): DeviceTensor {
  return new DeviceTensor("input", shape, dtype);
}

/** Rows of a quantised weight that are made; the others repeat them. */
const SAMPLED_ROWS = 64;

/** Writes random numbers, the same in every run. */
function fill(tensor: DeviceTensor, { shape, dtype, magnitude }: RaceInput, seed: number): void {
  if (isWeightFormat(dtype)) {
    const [rows, k] = shape as [number, number];
    const sample = sampleBlocks([SAMPLED_ROWS, k], dtype, seed, magnitude);
    const blocks = new Uint8Array(sample.length * rows / SAMPLED_ROWS);
    for (let at = 0; at < blocks.length; at += sample.length) {
      blocks.set(sample.subarray(0, blocks.length - at), at);
    }
    return tensor.writeRows(blocks);
  }
  let state = 0x9e3779b9 ^ (seed << 8);
  tensor.write(Float32Array.from({ length: elementCount(shape) }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state / 2 ** 31 * Math.sqrt(3) * magnitude;
  }));
}
