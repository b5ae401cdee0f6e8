/** Kernels that do one thing as fast as the device can: compute, or read. What they reach is what bounds every op. */
import { type MatrixUnit, unitParams } from "./ops/matrix_unit.ts";
import type { Kernel } from "./shaders/kernel.ts";
import { KernelFile } from "./shaders/kernel_file.ts";
import emptySource from "./shaders/probes/empty.wgsl" with { type: "text" };
import matrixSource from "./shaders/probes/matrix.wgsl" with { type: "text" };
import multiplyAddSource from "./shaders/probes/multiply_add.wgsl" with { type: "text" };
import readSource from "./shaders/probes/read.wgsl" with { type: "text" };
import workgroupReadSource from "./shaders/probes/workgroup_read.wgsl" with { type: "text" };

const MULTIPLY_ADD = new KernelFile("probes/multiply_add", multiplyAddSource);
const READ = new KernelFile("probes/read", readSource);
const WORKGROUP_READ = new KernelFile("probes/workgroup_read", workgroupReadSource);
const MATRIX = new KernelFile("probes/matrix", matrixSource);
const EMPTY = new KernelFile("probes/empty", emptySource);

/** As many chains as hide the latency of a multiply-add, within the 16 registers of a CPU with 8 lanes. */
const CHAINS = 10;
/** Steps of every chain per turn of the loop: the loop costs next to nothing, and the code stays in the cache. */
const STEPS = 16;

/** Numbers that are multiplied: f16 by twos, int8 four products at a time. */
export type ArithmeticType = "f32" | "f16" | "i8";

/** Multiplications and additions of one invocation in one turn of {@linkcode multiplyAddKernel}. */
export const MULTIPLY_ADD_FLOPS: Readonly<Record<ArithmeticType, number>> = {
  f32: 2 * CHAINS * STEPS,
  f16: 4 * CHAINS * STEPS,
  i8: 8 * CHAINS * STEPS,
};

/** Multiply-adds in registers; x, y: [invocations] f32, grid: invocations / lanes, exactly. */
export function multiplyAddKernel(lanes: number, type: ArithmeticType = "f32"): Kernel {
  return MULTIPLY_ADD.kernel({ LANES: lanes, TYPE: type, CHAINS, STEPS });
}

/** How the words of a workgroup are dealt out: every invocation its own run, or neighbours side by side. */
export type ReadOrder = "runs" | "interleaved";

/**
 * Reads x, or its beginning again and again, and writes next to nothing.
 *
 * x: [words, 4] f32, words a power of two; y: [invocations, 4]; grid: invocations / lanes, exactly. Uniforms: strip,
 * words of an invocation, a multiple of 16; mask, one less than the words that are read.
 */
export function readKernel(lanes: number, order: ReadOrder): Kernel {
  return READ.kernel({ LANES: lanes, ORDER: order });
}

/** Bytes that one invocation reads in one turn of {@linkcode workgroupReadKernel}. */
export const WORKGROUP_READ_BYTES = 16 * 16;

/** Reads workgroup memory; x: [512, 4] f32, y: [invocations, 4], grid: invocations / lanes, exactly. */
export function workgroupReadKernel(lanes: number): Kernel {
  return WORKGROUP_READ.kernel({ LANES: lanes });
}

/** Sums of a subgroup in {@linkcode matrixKernel}, and its subgroups. */
const MATRIX_CHAINS = 4;
const SUBGROUPS = 4;

/** Multiplications and additions of one workgroup in one turn of {@linkcode matrixKernel}. */
export function matrixFlops({ m, n, k }: MatrixUnit): number {
  return 2 * m * n * k * MATRIX_CHAINS * SUBGROUPS;
}

/** Multiplications on matrix units; x: [4096] f32, y: [grid, 4 · lanes]. */
export function matrixKernel(unit: MatrixUnit): Kernel {
  return MATRIX.kernel({ ...unitParams(unit), CHAINS: MATRIX_CHAINS });
}

/** Does next to nothing; y: [1] f32, grid: 1. */
export function emptyKernel(): Kernel {
  return EMPTY.kernel({});
}
