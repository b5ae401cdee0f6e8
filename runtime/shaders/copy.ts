import type { Kernel } from "./assemble.ts";

/**
 * Copies a dense tensor to another of the same type, four elements per invocation.
 *
 * x, y: any shape, same number of elements; both padded to a multiple of 4. Workgroup: 64 x 1 x 1, grid: words / 64.
 */
export const COPY_KERNEL: Kernel = {
  name: "copy",
  buffers: [{ name: "x", access: "read", width: 4 }, { name: "y", access: "read_write", width: 4 }],
  params: { words: "u32" },
  workgroupSize: [64, 1, 1],
  body: `fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i < params.words) { y_put(i, x_at(i)); }
}`,
};
