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

/** `NAME_four(start, k)`: elements 4k … 4k+3 of the row at `start`, zeros past its end. */
export function rowLoader(name: "a" | "b", isVectorK: boolean): string {
  const head = `fn ${name}_four(start: u32, k: u32) -> vec4<f32>`;
  if (isVectorK) return `${head} { return ${name}_at(start + k); }`;
  const element = (i: number) =>
    `select(0.0, ${name}_at(start + min(4u * k + ${i}u, params.k - 1u)), 4u * k + ${i}u < params.k)`;
  return `${head} { return vec4<f32>(${[0, 1, 2, 3].map(element).join(", ")}); }`;
}
