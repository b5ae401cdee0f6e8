/** What a device can do at most: multiply-adds that touch next to no memory, and a copy that computes nothing. */

import {
  copyTo,
  type Device,
  elementwise,
  Graph,
  instantiate,
  planMemory,
  Resident,
  type Tensor,
} from "../../../runtime/mod.ts";

/** The rates that bound every op. */
export interface Ceiling {
  /** Arithmetic operations per nanosecond. */
  readonly gflops: number;
  /** Bytes read and written per nanosecond. */
  readonly gbps: number;
}

/** Chains per element that do not wait for each other, and the multiply-adds of each one. */
const CHAINS = 8;
const CHAIN_LENGTH = 64;

/** Elements of the arithmetic, and bytes of the copied tensor: more than caches hold. */
const ELEMENTS = { cpu: 2 ** 19, gpu: 2 ** 22 } as const;
const COPIED_BYTES = 64 * 2 ** 20;

const ROUNDS = 5;

/**
 * Measures both ceilings, best of 5.
 *
 * The arithmetic is an elementwise op whose expression is long, so it is found as fast as the compiler makes our
 * own kernels, not as fast as the data sheet says.
 */
export async function measureCeiling(device: Device): Promise<Ceiling> {
  const elements = ELEMENTS[device.target.schedule];
  const arithmetic = await rate(device, [elements], (x, y) => {
    copyTo(elementwise(chains(), { x }, { scalars: { a: 0.5, b: 0.25 } }), y);
  }, 2 * CHAINS * CHAIN_LENGTH * elements);
  const copy = await rate(device, [COPIED_BYTES / 4], copyTo, 2 * COPIED_BYTES);
  return { gflops: arithmetic, gbps: copy };
}

/** The higher one of each. */
export function highest(a: Ceiling, b: Ceiling): Ceiling {
  return { gflops: Math.max(a.gflops, b.gflops), gbps: Math.max(a.gbps, b.gbps) };
}

/**
 * How near an op came to the time that the device needs at least.
 *
 * @param work arithmetic operations and bytes of one call, and its time in milliseconds
 * @returns 1 where either the arithmetic or the memory was busy all the time
 */
export function ceilingShare(
  { flops, bytes, milliseconds }: { flops: number; bytes: number; milliseconds: number },
  { gflops, gbps }: Ceiling,
): number {
  return Math.max(flops / gflops, bytes / gbps) / 1e6 / milliseconds;
}

/** WGSL of the chains: each begins elsewhere, so that none of them is another one's. */
function chains(): string {
  return Array.from({ length: CHAINS }, (_, chain) => {
    let text = `x + ${chain}.0`;
    for (let i = 0; i < CHAIN_LENGTH; i++) text = `fma(${text}, a, b)`;
    return text;
  }).join(" + ");
}

/** Units of work per nanosecond of a program that reads one tensor and writes another of its shape. */
async function rate(
  device: Device,
  shape: number[],
  build: (x: Tensor, y: Resident) => void,
  work: number,
): Promise<number> {
  const [x, y] = [new Resident("x", shape), new Resident("y", shape)];
  const graph = new Graph("ceiling", {
    ...device.target,
    submitBudget: { flops: Infinity, bytes: Infinity },
  });
  build(graph.use(x), y);
  for (const resident of [x, y]) resident.allocate(device);
  const programs = await instantiate(planMemory({ main: graph }), device);
  try {
    const run = async (times: number) => {
      const start = performance.now();
      for (let i = 0; i < times; i++) programs.get("main").submit();
      await device.wait();
      return performance.now() - start;
    };
    await run(1);
    const times = await run(1) < 20 ? 32 : 4;
    let best = Infinity;
    for (let round = 0; round < ROUNDS; round++) {
      // The difference of two series holds neither the submit nor the wait.
      const [few, many] = [await run(1), await run(1 + times)];
      best = Math.min(best, Math.max(many - few, many / 2) / times);
    }
    return work / best / 1e6;
  } finally {
    programs.destroy();
    for (const resident of [x, y]) resident.destroy();
  }
}
