import type { Kernel } from "./assemble.ts";

/**
 * y = Σ c[first + k] · x_k over `count` tensors of one shape; the one at `own`, if there is such, is y itself as it was.
 *
 * x_k, y: dense, padded to a multiple of 4; c: coefficients, one after the other.
 * Workgroup: 64 x 1 x 1, grid: words / 64.
 */
export function combineKernel(count: number, own?: number): Kernel {
  const names = Array.from({ length: count }, (_, k) => (k === own ? "y" : `x${k}`));
  const terms = names.map((name, k) => `c_at(params.first + ${k}u) * ${name}_at(i)`);
  return {
    name: `combine ${count}${own === undefined ? "" : ` own ${own}`}`,
    buffers: [
      ...names.filter((name) => name !== "y").map((name) => ({
        name,
        access: "read" as const,
        width: 4 as const,
      })),
      { name: "c", access: "read", width: 1 },
      { name: "y", access: "read_write", width: 4 },
    ],
    params: { words: "u32", first: "u32" },
    workgroupSize: [64, 1, 1],
    body: `fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i < params.words) { y_put(i, ${terms.join(" + ")}); }
}`,
  };
}
