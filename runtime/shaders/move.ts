import type { Kernel } from "./assemble.ts";

/**
 * Copies runs: y[o * y_stride + y_start + j] = x[o * x_stride + x_start + j] for j < run, o < count / run.
 * All quantities are in words of `width` elements.
 *
 * Workgroup: 64 x 1 x 1, grid: count / 64.
 */
export function moveRunsKernel(width: 1 | 4): Kernel {
  return {
    name: `move_runs w${width}`,
    buffers: [
      { name: "x", access: "read", width },
      { name: "y", access: "read_write", width },
    ],
    params: {
      count: "u32",
      run: "u32",
      x_stride: "u32",
      x_start: "u32",
      y_stride: "u32",
      y_start: "u32",
    },
    workgroupSize: [64, 1, 1],
    body: `fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i >= params.count) { return; }
  let outer = i / params.run;
  let inner = i % params.run;
  y_put(outer * params.y_stride + params.y_start + inner, x_at(outer * params.x_stride + params.x_start + inner));
}`,
  };
}

/**
 * y dense, x read through a stride per dimension of y: a transposition of any number of dimensions.
 * Sizes and strides are in words of `width` elements; the innermost stride is 1 when the width is 4.
 *
 * Workgroup: 64 x 1 x 1, grid: words of y / 64.
 */
export function permuteKernel(rank: number, width: 1 | 4): Kernel {
  const params: Record<string, "u32"> = { count: "u32" };
  for (let axis = 0; axis < rank; axis++) params[`stride${axis}`] = "u32";
  for (let axis = 1; axis < rank; axis++) params[`size${axis}`] = "u32";
  const lines: string[] = [];
  for (let axis = rank - 1; axis > 0; axis--) {
    const rest = axis === rank - 1 ? "i" : `rest${axis}`;
    lines.push(`  let c${axis} = ${rest} % params.size${axis};`);
    lines.push(`  let rest${axis - 1} = ${rest} / params.size${axis};`);
  }
  const first = rank === 1 ? "i" : "rest0";
  const terms = Array.from(
    { length: rank },
    (_, axis) => `${axis === 0 ? first : `c${axis}`} * params.stride${axis}`,
  );
  return {
    name: `permute r${rank} w${width}`,
    buffers: [
      { name: "x", access: "read", width },
      { name: "y", access: "read_write", width },
    ],
    params,
    workgroupSize: [64, 1, 1],
    body: `fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i >= params.count) { return; }
${lines.join("\n")}
  y_put(i, x_at(${terms.join(" + ")}));
}`,
  };
}
