/** Matrix products with a weight of int8 blocks, of activations that are rounded to int8 row by row. */
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
/** Bytes of workgroup memory: tiles of 5 words per row, two scales per column. */
const WORKGROUP_BYTES = TILE * (2 * 5 * 16 + 2 * 4);
/** `u32`s in front of the elements of a rounded row. */
const ROW_HEADER = 4;

/** On four products of int8 at a time. */
export const INT8: GemmVariant = {
  name: "int8",
  schedule: "gpu",
  supports: ({ format }, { operands, limits }) =>
    operands === "int8" && format !== undefined && BLOCK_FORMATS[format].isInt8 === true &&
    limits.maxWorkgroupMemoryBytes >= WORKGROUP_BYTES && limits.maxWorkgroupInvocations >= 64,
  prepare({ m, k }, a) {
    const y = a.graph.tensor("int8", [m, ROW_HEADER + k / 4], "u32");
    a.graph.dispatch({
      kernel: QUANTIZE_ROWS,
      buffers: { x: a, y },
      params: { k },
      workgroups: [m, 1, 1],
    });
    return y;
  },
  plan({ m, n, epilogue }) {
    return {
      kernel: INT8_FILE.kernel(epilogueParams(epilogue)),
      workgroups: [Math.ceil(n / TILE), Math.ceil(m / TILE), 1],
    };
  },
};
