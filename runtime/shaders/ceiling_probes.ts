/** Kernels that do one thing as fast as the device can: compute, or read. What they reach is what bounds every op. */
import type { Kernel } from "./assemble.ts";

/**
 * Chains that do not wait for each other: as many as hide the latency of a multiply-add, and no more than the sixteen
 * registers of a CPU with 8 lanes hold beside the two constants.
 */
const CHAINS = 10;
/** Steps of every chain per turn of the loop: the loop costs next to nothing, and the code stays in the cache. */
const STEPS = 16;

/** Multiplications and additions of one invocation in one turn of {@linkcode multiplyAddKernel}. */
export const MULTIPLY_ADD_FLOPS: number = 2 * CHAINS * STEPS;

/**
 * Multiply-adds in registers: s = s * factor + offset.
 *
 * x, y: [invocations] f32. Workgroup: `lanes` x 1 x 1, grid: invocations / lanes, exactly.
 */
export function multiplyAddKernel(lanes: number): Kernel {
  const names = Array.from({ length: CHAINS }, (_, i) => `s${i}`);
  const step = names.map((name) => `    ${name} = fma(${name}, factor, offset);`).join("\n");
  return {
    name: `multiply_add ${lanes}`,
    buffers: [
      { name: "x", access: "read", width: 1 },
      { name: "y", access: "read_write", width: 1 },
    ],
    params: { turns: "u32", factor: "f32", offset: "f32" },
    workgroupSize: [lanes, 1, 1],
    body: `fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * ${lanes}u + local.x;
  let factor = params.factor;
  let offset = params.offset;
  let x = x_at(i);
${names.map((name, chain) => `  var ${name} = x + ${chain}.0;`).join("\n")}
  for (var turn = 0u; turn < params.turns; turn++) {
${new Array<string>(STEPS).fill(step).join("\n")}
  }
  y_put(i, ${names.join(" + ")});
}`,
  };
}

/** Words of one invocation in one turn of the loop. */
const READS = 16;

/** How the words of a workgroup are dealt out: every invocation its own run, or neighbours side by side. */
export type ReadOrder = "runs" | "interleaved";

/**
 * Sums words of 4 elements: reads all of x, writes next to nothing.
 *
 * x: [invocations, strip, 4] f32, strip a multiple of 16; y: [invocations, 4]. Workgroup: `lanes` x 1 x 1, grid:
 * invocations / lanes, exactly.
 */
export function readKernel(lanes: number, order: ReadOrder): Kernel {
  const index = (k: string) =>
    order === "runs" ? `i * params.strip + ${k}` : `first + (${k}) * ${lanes}u + local.x`;
  const reads = Array.from(
    { length: READS },
    (_, k) => `    s${k % 4} += x_at(${index(`k + ${k}u`)});`,
  );
  return {
    name: `read ${lanes} ${order}`,
    buffers: [
      { name: "x", access: "read", width: 4 },
      { name: "y", access: "read_write", width: 4 },
    ],
    params: { strip: "u32" },
    workgroupSize: [lanes, 1, 1],
    body: `fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * ${lanes}u + local.x;
${order === "runs" ? "" : `  let first = wg.x * ${lanes}u * params.strip;`}
  var s0 = vec4<f32>(0.0);
  var s1 = vec4<f32>(0.0);
  var s2 = vec4<f32>(0.0);
  var s3 = vec4<f32>(0.0);
  for (var k = 0u; k < params.strip; k += ${READS}u) {
${reads.join("\n")}
  }
  y_put(i, (s0 + s1) + (s2 + s3));
}`,
  };
}
