/** Kernels that do one thing as fast as the device can: compute, or read. What they reach is what bounds every op. */
import type { Kernel } from "./shaders/assemble.ts";
import { KernelFile } from "./shaders/kernel_file.ts";
import multiplyAddSource from "./shaders/probes/multiply_add.wgsl" with { type: "text" };
import readSource from "./shaders/probes/read.wgsl" with { type: "text" };

const MULTIPLY_ADD = new KernelFile("probes/multiply_add", multiplyAddSource);
const READ = new KernelFile("probes/read", readSource);

/**
 * Chains that do not wait for each other: as many as hide the latency of a multiply-add, and no more than the sixteen
 * registers of a CPU with 8 lanes hold beside the two constants.
 */
const CHAINS = 10;
/** Steps of every chain per turn of the loop: the loop costs next to nothing, and the code stays in the cache. */
const STEPS = 16;

/** Multiplications and additions of one invocation in one turn of {@linkcode multiplyAddKernel}. */
export const MULTIPLY_ADD_FLOPS: number = 2 * CHAINS * STEPS;

/** Multiply-adds in registers; x, y: [invocations] f32, grid: invocations / lanes, exactly. */
export function multiplyAddKernel(lanes: number): Kernel {
  return MULTIPLY_ADD.kernel({ LANES: lanes, CHAINS, STEPS });
}

/** How the words of a workgroup are dealt out: every invocation its own run, or neighbours side by side. */
export type ReadOrder = "runs" | "interleaved";

/**
 * Reads all of x and writes next to nothing.
 *
 * x: [invocations, strip, 4] f32, strip a multiple of 16; y: [invocations, 4]; grid: invocations / lanes, exactly.
 */
export function readKernel(lanes: number, order: ReadOrder): Kernel {
  return READ.kernel({ LANES: lanes, ORDER: order });
}
