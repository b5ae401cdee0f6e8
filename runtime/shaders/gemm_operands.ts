/** Sizes, batch addresses and loads of the operands of matrix products, shared by all their kernels. */
import type { ParamType } from "./assemble.ts";

/**
 * Parameters of a matrix product. With batches, matrix z = outer * batch_inner + inner of the result is made from
 * those at `outer * a_outer + inner * a_inner` of a, and the same of b (in elements; 0 where it is repeated).
 */
export function gemmParams(isBatched: boolean): Record<string, ParamType> {
  return {
    m: "u32",
    n: "u32",
    k: "u32",
    ...(isBatched
      ? { batch_inner: "u32", a_outer: "u32", a_inner: "u32", b_outer: "u32", b_inner: "u32" }
      : {}),
  };
}

/** Declares `a_start` and `b_start`, counted in accesses of the given widths. */
export function batchWgsl(isBatched: boolean, aWidth: 1 | 4, bWidth: 1 | 4): string {
  if (!isBatched) return "  let a_start = 0u;\n  let b_start = 0u;";
  return `  let outer = wg.z / params.batch_inner;
  let inner = wg.z % params.batch_inner;
  let a_start = (outer * params.a_outer + inner * params.a_inner) / ${aWidth}u;
  let b_start = (outer * params.b_outer + inner * params.b_inner) / ${bWidth}u;`;
}

/** `NAME_four(start, k)`: elements 4k … 4k+3 of the row at `start`, zeros past its end; `size` is its length. */
export function rowLoader(name: string, isVectorK: boolean, size = "params.k"): string {
  const head = `fn ${name}_four(start: u32, k: u32) -> vec4<f32>`;
  if (isVectorK) return `${head} { return ${name}_at(start + k); }`;
  const element = (i: number) =>
    `select(0.0, ${name}_at(start + min(4u * k + ${i}u, ${size} - 1u)), 4u * k + ${i}u < ${size})`;
  return `${head} { return vec4<f32>(${[0, 1, 2, 3].map(element).join(", ")}); }`;
}

/** `NAME_slice(start, k)`: as `NAME_four`, but zeros past the end of a row: the last tile may reach beyond it. */
export function sliceLoader(name: string, size = "params.k"): string {
  return `fn ${name}_slice(start: u32, k: u32) -> vec4<f32> {
  let steps = (${size} + 3u) / 4u;
  return select(vec4<f32>(), ${name}_four(start, min(k, steps - 1u)), vec4<bool>(k < steps));
}`;
}
