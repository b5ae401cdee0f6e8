/** What a device can do at most: multiply-adds that touch no memory, and bytes that nothing is computed with. */

import {
  type Device,
  DeviceTensor,
  Graph,
  instantiate,
  OutOfMemoryError,
  planMemory,
} from "../runtime/mod.ts";
import { fillRandom } from "../runtime/ops/sample_blocks.ts";
import { matrixUnitOf } from "../runtime/ops/matrix_unit.ts";
import type { Kernel } from "../runtime/shaders/kernel.ts";
import {
  type ArithmeticType,
  matrixFlops,
  matrixKernel,
  MULTIPLY_ADD_FLOPS,
  multiplyAddKernel,
  readKernel,
  WORKGROUP_READ_BYTES,
  workgroupReadKernel,
} from "../runtime/probes.ts";
import type { Stopwatch } from "../runtime/program/stopwatch.ts";
import { memoryRate, type TimedOp } from "./types.ts";

/** The rates that bound every op. */
export interface Ceilings {
  /** Multiplications and additions per second, as our own kernels are compiled. */
  readonly flopsPerSecond: number;
  /** The same on matrix units, f16 to f32; nothing where none can be used. */
  readonly matrixFlopsPerSecond?: number | undefined;
  /** Bytes of memory read and written per second, beyond the caches. */
  readonly bytesPerSecond: number;
}

/** Probes by class of adapter: what fills it for a while. */
const PROBES = {
  cpu: { lanes: 8, invocations: 2 ** 15, turns: 128, bytes: 2 ** 27, strip: 1024 },
  gpu: { lanes: 64, invocations: 2 ** 20, turns: 64, bytes: 2 ** 30, strip: 64 },
} as const;

/** Bytes of memory that are tried before it is said that there is none. */
const LEAST_BYTES = 2 ** 24;
/** Workgroups of {@linkcode probeMatrix} and its turns, by class of adapter. */
const MATRIX = { cpu: { grid: 16, turns: 64 }, gpu: { grid: 2048, turns: 256 } } as const;
/** Factor by which software adapters do less f16, which they compute with the help of f32. */
const SLOW_HALF = 16;

/** Takes two seconds. Memory's is the faster of reads and copies: kernels of software adapters load lane by lane. */
export async function measureCeilings(device: Device, stopwatch: Stopwatch): Promise<Ceilings> {
  const flopsPerSecond = await probeArithmetic(device, stopwatch, "f32");
  const matrixFlopsPerSecond = await probeMatrix(device, stopwatch);
  const reads = await probeReads(device, stopwatch, []);
  const copies = await probeCopies(device, stopwatch.idleMs, reads[0]!.bytes);
  return {
    flopsPerSecond,
    matrixFlopsPerSecond,
    bytesPerSecond: memoryRate({ reads, copies })!,
  };
}

/** Share of the device's least time: 1 where arithmetic or memory was always busy, more where caches held the bytes. */
export function ceilingShare(
  { flops, bytes, ms, kernels }: Pick<TimedOp, "flops" | "bytes" | "ms" | "kernels">,
  { flopsPerSecond, matrixFlopsPerSecond, bytesPerSecond }: Ceilings,
): number {
  const isMatrix = kernels.some((kernel) => /\/matrix\b/.test(kernel));
  const rate = isMatrix && matrixFlopsPerSecond ? matrixFlopsPerSecond : flopsPerSecond;
  return Math.max(flops / rate, bytes / bytesPerSecond) * 1000 / ms;
}

/** Multiplications and additions per second in registers; `f16` takes an adapter that has it. */
export function probeArithmetic(
  device: Device,
  stopwatch: Stopwatch,
  type: ArithmeticType,
): Promise<number> {
  const { schedule } = device.target;
  const { lanes, invocations, turns: usual } = PROBES[schedule];
  const turns = schedule === "cpu" && type === "f16" ? usual / SLOW_HALF : usual;
  return probeProgram(device, stopwatch, {
    x: [invocations],
    y: [invocations],
    work: invocations * turns * MULTIPLY_ADD_FLOPS[type],
    kernel: multiplyAddKernel(lanes, type),
    params: { turns, factor: 0.5, offset: 0.25 },
    workgroups: invocations / lanes,
  });
}

/** Multiplications and additions per second on matrix units, f16 to f32; nothing where none can be used. */
export async function probeMatrix(
  device: Device,
  stopwatch: Stopwatch,
): Promise<number | undefined> {
  const unit = matrixUnitOf(device.target);
  if (!unit) return undefined;
  const { grid, turns } = MATRIX[device.target.schedule];
  return await probeProgram(device, stopwatch, {
    x: [4096],
    y: [grid * 4 * unit.lanes],
    work: grid * turns * matrixFlops(unit),
    kernel: matrixKernel(unit),
    params: { turns },
    workgroups: grid,
  });
}

export interface ReadRate {
  /** Bytes that are read, again and again where they are few. */
  readonly bytes: number;
  readonly bytesPerSecond: number;
}

/** Reads memory: first as much as is meant to be beyond every cache, then the beginnings of it again and again. */
export async function probeReads(
  device: Device,
  stopwatch: Stopwatch,
  sizes: readonly number[],
): Promise<ReadRate[]> {
  const { schedule, limits } = device.target;
  const { lanes, strip, bytes: wanted } = PROBES[schedule];
  const largest = 2 ** Math.floor(Math.log2(limits.maxBindingBytes));
  for (let bytes = Math.min(wanted, 4 * largest);; bytes /= 2) {
    try {
      const rates: ReadRate[] = [];
      const invocations = bytes / 16 / strip;
      await withResidents(device, [[bytes / 4], [invocations * 4]], async ([x, y]) => {
        for (const part of [bytes, ...sizes.filter((size) => size < bytes)]) {
          const ms = await timeKernel(device, stopwatch, x!, y!, {
            kernel: readKernel(lanes, schedule === "cpu" ? "runs" : "interleaved"),
            params: { strip, mask: part / 16 - 1 },
            workgroups: invocations / lanes,
          });
          rates.push({ bytes: part, bytesPerSecond: bytes / ms * 1000 });
        }
      });
      return rates;
    } catch (error) {
      if (!(error instanceof OutOfMemoryError) || bytes <= LEAST_BYTES) throw error;
    }
  }
}

/** Bytes per second out of workgroup memory, of all workgroups together. */
export function probeWorkgroupReads(device: Device, stopwatch: Stopwatch): Promise<number> {
  const { lanes, invocations, turns } = PROBES[device.target.schedule];
  return probeProgram(device, stopwatch, {
    x: [2048],
    y: [invocations * 4],
    work: invocations * turns * WORKGROUP_READ_BYTES,
    kernel: workgroupReadKernel(lanes),
    params: { turns },
    workgroups: invocations / lanes,
  });
}

const ROUNDS = 3;

/** Milliseconds of work with its wait, less `idleMs` of a wait for nothing (0 where the wait counts); the best of three. */
export async function timeWork(idleMs: number, work: () => Promise<unknown>): Promise<number> {
  let best = Infinity;
  for (let round = 0; round <= ROUNDS; round++) {
    const start = performance.now();
    await work();
    const ms = performance.now() - start;
    // The first touches the memory for the first time; one that was disturbed must not leave nothing.
    if (round > 0) best = Math.min(best, Math.max(ms / 2, ms - idleMs));
  }
  return best;
}

const COPIES = 8;

/** Bytes per second that the device reads and writes where it copies from buffer to buffer. */
export async function probeCopies(
  device: Device,
  idleMs: number,
  bytes: number,
): Promise<number> {
  const half = Math.min(bytes / 2, device.target.limits.maxBufferBytes);
  const usage = 0x04 | 0x08; // COPY_SRC | COPY_DST
  const [from, to] = [0, 1].map((i) => device.createBuffer(`copy ${i}`, half, usage));
  try {
    const ms = await timeWork(idleMs, () => {
      const encoder = device.gpuDevice.createCommandEncoder();
      for (let i = 0; i < COPIES; i++) encoder.copyBufferToBuffer(from!, 0, to!, 0, half);
      device.submit([encoder.finish()]);
      return device.wait();
    });
    return 2 * half * COPIES / ms * 1000;
  } finally {
    for (const buffer of [from!, to!]) device.destroyBuffer(buffer);
  }
}

/** Units of work per second of a program of one dispatch. */
async function probeProgram(
  device: Device,
  stopwatch: Stopwatch,
  probe: ProbeDispatch & { readonly x: number[]; readonly y: number[]; readonly work: number },
): Promise<number> {
  return await withResidents(
    device,
    [probe.x, probe.y],
    async ([x, y]) => probe.work / await timeKernel(device, stopwatch, x!, y!, probe) * 1000,
  );
}

interface ProbeDispatch {
  readonly kernel: Kernel;
  readonly params: Readonly<Record<string, number>>;
  readonly workgroups: number;
}

/** Milliseconds of one run of a kernel. */
async function timeKernel(
  device: Device,
  stopwatch: Stopwatch,
  x: DeviceTensor,
  y: DeviceTensor,
  { kernel, params, workgroups }: ProbeDispatch,
): Promise<number> {
  const graph = new Graph("probe", device.target);
  const buffers = { x: graph.use(x), y: graph.use(y) };
  graph.dispatch({ kernel, buffers, params, workgroups: [workgroups, 1, 1] });
  using programs = await instantiate(planMemory({ main: graph }), device);
  return await stopwatch.time(programs.get("main"));
}

/** Tensors of random numbers while something is done with them. */
export async function withResidents<Result>(
  device: Device,
  shapes: readonly number[][],
  use: (tensors: readonly DeviceTensor[]) => Promise<Result>,
): Promise<Result> {
  const tensors = shapes.map((shape, i) => new DeviceTensor(`tensor ${i}`, shape));
  try {
    await device.guarded(() => {
      for (const tensor of tensors) {
        tensor.allocate(device);
        fillRandom(tensor, 0.5);
      }
    });
    return await use(tensors);
  } finally {
    for (const tensor of tensors) tensor.destroy();
  }
}
