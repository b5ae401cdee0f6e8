/** Time per kernel by GPU timestamps. */
import type { Device } from "../device/device.ts";
import type { Executable } from "./executable.ts";

/** One kernel's share of a program. */
export interface ProfileRow {
  /** Name of the kernel. */
  readonly kernel: string;
  /** How often it ran. */
  readonly dispatches: number;
  /** Time of all its dispatches together. */
  readonly milliseconds: number;
  /** Arithmetic operations per nanosecond. */
  readonly gflops: number;
  /** Bytes of the tensors touched, per second. */
  readonly gigabytesPerSecond: number;
}

/** Timestamps of one query set; WebGPU allows no more. */
const MAX_QUERIES = 4096;
const QUERY_RESOLVE_USAGE = 0x200 | 0x04; // QUERY_RESOLVE | COPY_SRC

export class TimestampRecorder {
  readonly #device: Device;
  /** Each of {@linkcode MAX_QUERIES}, the last one of what is left. */
  readonly #sets: readonly GPUQuerySet[];
  readonly #buffer: GPUBuffer;

  /** @throws {Error} when the adapter has no timestamps */
  constructor(device: Device, passes: number) {
    if (!device.target.features.timestamps) {
      throw new Error(`Cannot profile: the adapter "${device.adapter.name}" has no timestamps`);
    }
    this.#device = device;
    const counts: number[] = [];
    for (let left = 2 * passes; left > 0; left -= MAX_QUERIES) {
      counts.push(Math.min(left, MAX_QUERIES));
    }
    this.#sets = counts.map((count) =>
      device.gpuDevice.createQuerySet({ type: "timestamp", count })
    );
    this.#buffer = device.createBuffer("timestamps", 16 * passes, QUERY_RESOLVE_USAGE);
  }

  /** The `timestampWrites` of pass `index`. */
  writes(index: number): GPUComputePassTimestampWrites {
    return {
      querySet: this.#sets[Math.floor(2 * index / MAX_QUERIES)]!,
      beginningOfPassWriteIndex: 2 * index % MAX_QUERIES,
      endOfPassWriteIndex: 2 * index % MAX_QUERIES + 1,
    };
  }

  /** Submits what `encoder` holds and gives begin and end of every pass, in ticks. */
  async finish(encoder: GPUCommandEncoder, passes: number): Promise<BigUint64Array> {
    for (let first = 0; first < 2 * passes; first += MAX_QUERIES) {
      const count = Math.min(MAX_QUERIES, 2 * passes - first);
      encoder.resolveQuerySet(this.#sets[first / MAX_QUERIES]!, 0, count, this.#buffer, 8 * first);
    }
    this.#device.submit([encoder.finish()]);
    const bytes = await this.#device.read([{ buffer: this.#buffer, offset: 0, size: 16 * passes }]);
    return new BigUint64Array(bytes.buffer, 0, 2 * passes);
  }

  /** Ticks in which passes ran. */
  async ticksOf(passes: number): Promise<number> {
    const ticks = await this.finish(this.#device.gpuDevice.createCommandEncoder(), passes);
    let sum = 0;
    for (let pass = 0; pass < passes; pass++) {
      sum += Number(ticks[2 * pass + 1]! - ticks[2 * pass]!);
    }
    return sum;
  }

  [Symbol.dispose](): void {
    this.#device.destroyBuffer(this.#buffer);
    for (const set of this.#sets) set.destroy();
  }
}

/** Nanoseconds per timestamp tick, by this machine's clock over 100 ms: Deno gives raw ticks, which differ between vendors. */
export async function measureTickPeriod(device: Device): Promise<number> {
  using recorder = new TimestampRecorder(device, 1);
  const sample = async () => {
    const encoder = device.gpuDevice.createCommandEncoder();
    encoder.beginComputePass({ timestampWrites: recorder.writes(0) }).end();
    const before = performance.now();
    const [, end] = await recorder.finish(encoder, 1);
    return { time: before, tick: end! };
  };
  await sample();
  const first = await sample();
  await new Promise((resolve) => setTimeout(resolve, 100));
  const second = await sample();
  return (second.time - first.time) * 1e6 / Number(second.tick - first.tick);
}

/**
 * Runs a program once with a pass of its own around every dispatch, which makes it slower as a whole than a real
 * run, and adds up the time of each kernel.
 *
 * @returns rows, the longest first
 * @throws {Error} when the adapter has no timestamps, or weights of the program are streamed
 */
export async function profileProgram(program: Executable): Promise<ProfileRow[]> {
  const { device } = program;
  if (program.submits.some((_, i) => program.segmentFrom(i))) {
    throw new Error(
      `Cannot profile program "${program.name}": its weights are streamed; allow it more memory`,
    );
  }
  const period = await measureTickPeriod(device);
  const rows = new Map<
    string,
    { dispatches: number; nanoseconds: number; flops: number; bytes: number }
  >();
  const prepared = program.submits.flat();
  const size = Math.min(prepared.length, MAX_QUERIES / 2);
  using recorder = new TimestampRecorder(device, size);
  for (let start = 0; start < prepared.length; start += size) {
    const part = prepared.slice(start, start + size);
    const encoder = device.gpuDevice.createCommandEncoder({ label: `profile ${program.name}` });
    part.forEach(({ pipeline, bindGroup, paramOffset, planned }, i) => {
      const pass = encoder.beginComputePass({ timestampWrites: recorder.writes(i) });
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, bindGroup, [paramOffset]);
      pass.dispatchWorkgroups(...planned.workgroups);
      pass.end();
    });
    const ticks = await recorder.finish(encoder, part.length);
    part.forEach(({ planned: { dispatch } }, i) => {
      const { name } = dispatch.kernel;
      const row = rows.get(name) ?? { dispatches: 0, nanoseconds: 0, flops: 0, bytes: 0 };
      row.dispatches++;
      row.nanoseconds += Number(ticks[2 * i + 1]! - ticks[2 * i]!) * period;
      row.flops += dispatch.flops;
      row.bytes += dispatch.bytes;
      rows.set(name, row);
    });
  }
  return [...rows].map(([kernel, { dispatches, nanoseconds, flops, bytes }]) => ({
    kernel,
    dispatches,
    milliseconds: nanoseconds / 1e6,
    gflops: flops / nanoseconds,
    gigabytesPerSecond: bytes / nanoseconds,
  })).sort((a, b) => b.milliseconds - a.milliseconds);
}
