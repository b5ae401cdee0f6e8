/**
 * What a device can do at most: multiply-adds that touch no memory, and bytes that nothing is computed with.
 *
 *     deno run -A tools/bench/ceilings.ts
 */

import {
  type Device,
  Graph,
  instantiate,
  openDevice,
  planMemory,
  Resident,
  type Tensor,
} from "../runtime/mod.ts";
import { MULTIPLY_ADD_FLOPS, multiplyAddKernel, readKernel } from "../runtime/ceiling_probes.ts";

/** The rates that bound every op. */
export interface Ceilings {
  /** Multiplications and additions per second, as our own kernels are compiled. */
  readonly flopsPerSecond: number;
  /** Bytes of memory read and written per second, beyond the caches. */
  readonly bytesPerSecond: number;
}

/** Probes by class of adapter: what fills it for some milliseconds. */
const PROBES = {
  cpu: { lanes: 8, invocations: 2 ** 16, turns: 128, bytes: 64 * 2 ** 20, strip: 1024 },
  gpu: { lanes: 64, invocations: 2 ** 20, turns: 32, bytes: 128 * 2 ** 20, strip: 64 },
} as const;

const ROUNDS = 4;
/** Least time of one series, in milliseconds. */
const SERIES_MS = 40;

/**
 * Measures both ceilings within two seconds, best of 4.
 *
 * The memory's is the faster of a kernel that reads and of the device's own copy from buffer to buffer: kernels of
 * software adapters load lane by lane, which the memory could outrun threefold.
 */
export async function measureCeilings(device: Device): Promise<Ceilings> {
  const flopsPerSecond = await probeArithmetic(device);
  const rates = [await probeReads(device), await probeCopies(device)];
  return { flopsPerSecond, bytesPerSecond: Math.max(...rates) };
}

/** The higher one of each. */
export function highest(a: Ceilings, b: Ceilings): Ceilings {
  return {
    flopsPerSecond: Math.max(a.flopsPerSecond, b.flopsPerSecond),
    bytesPerSecond: Math.max(a.bytesPerSecond, b.bytesPerSecond),
  };
}

/**
 * How near work came to the time that the device needs at least.
 *
 * @param work arithmetic operations and bytes, and their time in milliseconds
 * @returns 1 where either the arithmetic or the memory was busy all the time; more where caches held the bytes
 */
export function ceilingShare(
  { flops, bytes, milliseconds }: { flops: number; bytes: number; milliseconds: number },
  { flopsPerSecond, bytesPerSecond }: Ceilings,
): number {
  return Math.max(flops / flopsPerSecond, bytes / bytesPerSecond) * 1000 / milliseconds;
}

function probeArithmetic(device: Device): Promise<number> {
  const { lanes, invocations, turns } = PROBES[device.target.schedule];
  return probeProgram(device, {
    x: [invocations],
    y: [invocations],
    work: invocations * turns * MULTIPLY_ADD_FLOPS,
    dispatch: (x, y) =>
      x.graph.dispatch({
        kernel: multiplyAddKernel(lanes),
        buffers: { x, y },
        params: { turns, factor: 0.5, offset: 0.25 },
        workgroups: [invocations / lanes, 1, 1],
      }),
  });
}

function probeReads(device: Device): Promise<number> {
  const { schedule } = device.target;
  const { lanes, bytes, strip } = PROBES[schedule];
  const invocations = bytes / 16 / strip;
  return probeProgram(device, {
    x: [bytes / 4],
    y: [invocations * 4],
    work: bytes,
    dispatch: (x, y) =>
      x.graph.dispatch({
        kernel: readKernel(lanes, schedule === "cpu" ? "runs" : "interleaved"),
        buffers: { x, y },
        params: { strip },
        workgroups: [invocations / lanes, 1, 1],
      }),
  });
}

async function probeCopies(device: Device): Promise<number> {
  const { bytes } = PROBES[device.target.schedule];
  const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const [from, to] = [0, 1].map((i) => device.createBuffer(`copy ${i}`, bytes, usage));
  try {
    return await bestRate(device, 2 * bytes, (times) => {
      const encoder = device.gpuDevice.createCommandEncoder();
      for (let i = 0; i < times; i++) encoder.copyBufferToBuffer(from!, 0, to!, 0, bytes);
      device.submit([encoder.finish()]);
    });
  } finally {
    for (const buffer of [from!, to!]) device.destroyBuffer(buffer);
  }
}

/** Units of work per second of a program of one dispatch. */
async function probeProgram(
  device: Device,
  probe: { x: number[]; y: number[]; work: number; dispatch(x: Tensor, y: Tensor): void },
): Promise<number> {
  const residents = [new Resident("x", probe.x), new Resident("y", probe.y)];
  const graph = new Graph("ceiling", device.target);
  const [x, y] = residents.map((resident) => graph.use(resident));
  probe.dispatch(x!, y!);
  for (const resident of residents) resident.allocate(device);
  const programs = await instantiate(planMemory({ main: graph }), device);
  try {
    const program = programs.get("main");
    return await bestRate(device, probe.work, (times) => {
      for (let i = 0; i < times; i++) program.submit();
    });
  } finally {
    programs.destroy();
    for (const resident of residents) resident.destroy();
  }
}

/** Units of work per second, by the difference of two series: it holds neither the start nor the wait. */
async function bestRate(
  device: Device,
  work: number,
  submit: (times: number) => void,
): Promise<number> {
  const run = async (times: number) => {
    const start = performance.now();
    submit(times);
    await device.wait();
    return performance.now() - start;
  };
  await run(1);
  const times = Math.min(256, Math.ceil(SERIES_MS / Math.max(0.1, await run(2) - await run(1))));
  let best = Infinity;
  for (let round = 0; round < ROUNDS; round++) {
    const [few, many] = [await run(1), await run(1 + times)];
    // A disturbed short series must not make the long one look fast.
    best = Math.min(best, Math.max(many - few, many / 2) / times);
  }
  return work / best * 1000;
}

if (import.meta.main) {
  const device = await openDevice();
  const { flopsPerSecond, bytesPerSecond } = await measureCeilings(device);
  console.log(
    `${device.adapter.name}: ${(flopsPerSecond / 1e9).toFixed(1)} GFLOP/s, ${
      (bytesPerSecond / 1e9).toFixed(1)
    } GB/s`,
  );
  device.destroy();
}
