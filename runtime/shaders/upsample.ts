import type { Kernel } from "./assemble.ts";

/**
 * y[b, i, j] = x[b, i / factor, j / factor].
 *
 * x: [batch, y_height / factor, y_width / factor, words * width]; y: [batch, y_height, y_width, words * width].
 * Workgroup: 64 x 1 x 1, grid: words of y / 64.
 */
export function upsampleNearestKernel(width: 1 | 4): Kernel {
  return {
    name: `upsample_nearest w${width}`,
    buffers: [
      { name: "x", access: "read", width },
      { name: "y", access: "read_write", width },
    ],
    params: { count: "u32", words: "u32", y_width: "u32", y_height: "u32", factor: "u32" },
    workgroupSize: [64, 1, 1],
    body: `fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i >= params.count) { return; }
  let pixel = i / params.words;
  let column = (pixel % params.y_width) / params.factor;
  let line = pixel / params.y_width;
  let row = (line % params.y_height) / params.factor;
  let batch = line / params.y_height;
  let place = (batch * (params.y_height / params.factor) + row) * (params.y_width / params.factor) + column;
  y_put(i, x_at(place * params.words + i % params.words));
}`,
  };
}
