import type { BufferSlot, Kernel } from "./assemble.ts";

/**
 * y[i] = table[indices[i]] + addend[i], row by row; an index past the end takes the last row.
 *
 * table: [rows, words * width]; indices: [count / words] u32; addend, y: [count / words, words * width], y f32.
 * Workgroup: 64 x 1 x 1, grid: count / 64.
 */
export function gatherKernel(width: 1 | 4, hasAddend: boolean): Kernel {
  const read = (name: string): BufferSlot => ({ name, access: "read", width });
  return {
    name: `gather w${width}${hasAddend ? " add" : ""}`,
    buffers: [
      read("table"),
      { name: "indices", access: "read", width: 1 },
      ...(hasAddend ? [read("addend")] : []),
      { name: "y", access: "read_write", width },
    ],
    params: { count: "u32", words: "u32", rows: "u32" },
    workgroupSize: [64, 1, 1],
    body: `fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i >= params.count) { return; }
  let row = min(indices_at(i / params.words), params.rows - 1u);
  y_put(i, table_at(row * params.words + i % params.words)${hasAddend ? " + addend_at(i)" : ""});
}`,
  };
}
