/** How long the GPU takes for work that is done again and again: by its own clock where it has one. */

import type { Device } from "../device/device.ts";
import type { Executable } from "./executable.ts";
import { measureTickPeriod, TimestampRecorder } from "./profile.ts";

/** What is measured: submits whose passes can be repeated. */
export type TimedWork = Pick<Executable, "submits" | "encode" | "timestamps">;

interface TimeOptions {
  /** Work of one measurement at least, in milliseconds: below, launches and the clock count. */
  readonly leastMs?: number;
  /** Measurements; the best one counts. */
  readonly rounds?: number;
  /** What takes longer at first is not measured further. */
  readonly giveUpMs?: number;
  /** No further measurement begins after it, in the time of `performance.now()`. */
  readonly deadline?: number;
}

/** Passes that one measurement may have. */
const MAX_PASSES = 1024;
/** Repetitions in one pass, so that command buffers stay small. */
const MAX_TIMES = 4096;
/** Work before the first measurement of all, in milliseconds: GPUs raise their clocks when they have some. */
const WARM_UP_MS = 60;
/** Waits that a measurement is longer than where the GPU has no clock. */
const WAITS = 3;

/** Measures work on one device, which does nothing else meanwhile. */
export class Stopwatch {
  /** Milliseconds of a wait for nothing: Deno sleeps in it. */
  readonly idleMs: number;
  readonly #device: Device;
  /** Nanoseconds of a tick; nothing where the adapter has no timestamps. */
  readonly #period: number | undefined;
  readonly #recorder: TimestampRecorder | undefined;
  #isWarm = false;

  private constructor(device: Device, idleMs: number, period: number | undefined) {
    this.#device = device;
    this.idleMs = idleMs;
    this.#period = period;
    this.#recorder = period === undefined ? undefined : new TimestampRecorder(device, MAX_PASSES);
  }

  /** Measures the clock first, which takes 0.2 s. */
  static async open(device: Device): Promise<Stopwatch> {
    const idleMs = await measureIdle(device);
    const { timestamps } = device.target.features;
    return new Stopwatch(device, idleMs, timestamps ? await measureTickPeriod(device) : undefined);
  }

  get clock(): "timestamps" | "wall" {
    return this.#recorder ? "timestamps" : "wall";
  }

  /** Milliseconds of one run, the best of some. */
  async time(
    work: TimedWork,
    { leastMs = 3, rounds = 3, giveUpMs = Infinity, deadline = Infinity }: TimeOptions = {},
  ): Promise<number> {
    // The first run touches pages and caches for the first time.
    const first = await this.#run(work, 1);
    if (first > giveUpMs) return first;
    let best = await this.#run(work, 1);
    const least = this.#recorder ? leastMs : Math.max(leastMs, WAITS * this.idleMs);
    const most = work.submits.length === 1
      ? MAX_TIMES
      : Math.max(1, Math.floor(MAX_PASSES / work.submits.length));
    const timesFor = (ms: number) => Math.min(most, Math.max(1, Math.ceil(ms / best)));
    if (!this.#isWarm) {
      this.#isWarm = true;
      best = await this.#run(work, timesFor(WARM_UP_MS));
    }
    // What a single short run takes says little of many.
    if (timesFor(least) > 1) best = await this.#run(work, timesFor(least));
    for (let round = 1; round < rounds && performance.now() < deadline; round++) {
      best = Math.min(best, await this.#run(work, timesFor(least)));
    }
    return best;
  }

  [Symbol.dispose](): void {
    this.#recorder?.[Symbol.dispose]();
  }

  /** Milliseconds of one of `times` runs. */
  async #run(work: TimedWork, times: number): Promise<number> {
    const device = this.#device;
    const count = work.submits.length;
    const passes = count === 1 ? 1 : count * times;
    const perPass = count === 1 ? times : 1;
    const recorder = passes <= MAX_PASSES ? this.#recorder : undefined;
    const start = performance.now();
    for (let pass = 0; pass < passes; pass++) {
      work.timestamps = recorder && (() => recorder.writes(pass));
      device.submit([work.encode(pass % count, perPass)]);
    }
    work.timestamps = undefined;
    if (!recorder) {
      await device.wait();
      return Math.max(1e-4, performance.now() - start - this.idleMs) / times;
    }
    const ticks = await recorder.ticksOf(passes);
    return Math.max(1e-4, ticks * this.#period! / 1e6) / times;
  }
}

/** What a wait costs when there is nothing to wait for, in milliseconds: Deno sleeps in it. */
async function measureIdle(device: Device): Promise<number> {
  let best = Infinity;
  for (let i = 0; i < 5; i++) {
    const start = performance.now();
    device.flush();
    await device.wait();
    best = Math.min(best, performance.now() - start);
  }
  return best;
}
