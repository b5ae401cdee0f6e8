/**
 * Matrix products with a weight of integers in blocks, of activations that are rounded to int8, 32 neighbours with a scale of
 * their own.
 */
import { BLOCK_FORMATS } from "../../quantization/formats.ts";
import int8Source from "../../shaders/gemm/int8.wgsl" with { type: "text" };
import quantizeRowsSource from "../../shaders/gemm/quantize_rows.wgsl" with { type: "text" };
import { KernelFile } from "../../shaders/kernel_file.ts";
import { epilogueParams } from "./epilogue.ts";
import type { GemmVariant } from "./problem.ts";

const INT8_FILE = new KernelFile("gemm/int8", int8Source);
const QUANTIZE_ROWS = new KernelFile("gemm/quantize_rows", quantizeRowsSource).kernel();

/** Rows and columns of the result per workgroup. */
const TILE = 64;
/** Bytes of workgroup memory: 7 words per row, 5 per column, factors and offsets of two blocks. */
const WORKGROUP_BYTES = TILE * 16 * (7 + 5 + 2);
/** Elements of a block of activations, and the `u32`s that it takes. */
const BLOCK = 32;
const BLOCK_WORDS = 12;

/** Computes four products of int8 at a time. */
export const INT8: GemmVariant = {
  name: "int8",
  schedule: "gpu",
  supports: ({ format }, { operands, features, limits }) =>
    // AMD's GPUs before RDNA have no such instruction: the compiler spills a thousand registers for it.
    operands === "int8" && features.subgroupMinSize < 64 && format !== undefined &&
    BLOCK_FORMATS[format].integerBits !== undefined &&
    limits.maxWorkgroupMemoryBytes >= WORKGROUP_BYTES && limits.maxWorkgroupInvocations >= 64,
  prepare({ m, k, mayRound }, a) {
    const count = m * k / BLOCK;
    const y = a.graph.tensor("int8", [m, k / BLOCK * BLOCK_WORDS], "u32");
    a.graph.dispatch({
      kernel: QUANTIZE_ROWS,
      buffers: { x: a, y },
      params: { count },
      workgroups: [Math.ceil(count / 64), 1, 1],
      factors: mayRound ? ["x"] : undefined,
    });
    return y;
  },
  plan({ m, n, epilogue, format }) {
    const { integerBits, scaleRun } = BLOCK_FORMATS[format!];
    return {
      kernel: INT8_FILE.kernel({
        SIGNED: integerBits === 8,
        HALVES: scaleRun === 4,
        ...epilogueParams(epilogue),
      }),
      workgroups: [Math.ceil(n / TILE), Math.ceil(m / TILE), 1],
    };
  },
};
