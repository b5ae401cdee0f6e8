import type { Kernel } from "./assemble.ts";

/**
 * y[i] = table[indices[i]], row by row; an index past the end takes the last row.
 *
 * table: [rows, words * width]; indices: [count / words] u32; y: [count / words, words * width] f32.
 * Workgroup: 64 x 1 x 1, grid: count / 64.
 */
export function gatherKernel(width: 1 | 4): Kernel {
  return {
    name: `gather w${width}`,
    buffers: [
      { name: "table", access: "read", width },
      { name: "indices", access: "read", width: 1 },
      { name: "y", access: "read_write", width },
    ],
    params: { count: "u32", words: "u32", rows: "u32" },
    workgroupSize: [64, 1, 1],
    body: `fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i >= params.count) { return; }
  let row = min(indices_at(i / params.words), params.rows - 1u);
  y_put(i, table_at(row * params.words + i % params.words));
}`,
  };
}
