import type { Kernel } from "./assemble.ts";

/** Loads and stores four elements of a row at `word`; those past its end are minus infinity for the softmax. */
function rowAccess(isVector: boolean): string {
  if (isVector) {
    return `fn four(start: u32, word: u32) -> vec4<f32> { return x_at(start + word) * params.scale; }
fn put(start: u32, word: u32, v: vec4<f32>) { y_put(start + word, v); }`;
  }
  const element = (c: number) =>
    `select(${LOWEST}, x_at(start + min(4u * word + ${c}u, params.n - 1u)) * params.scale, 4u * word + ${c}u < params.n)`;
  const store = (c: number) =>
    `  if (4u * word + ${c}u < params.n) { y_put(start + 4u * word + ${c}u, v.${"xyzw"[c]}); }`;
  return `fn four(start: u32, word: u32) -> vec4<f32> {
  return vec4<f32>(${[0, 1, 2, 3].map(element).join(",\n    ")});
}
fn put(start: u32, word: u32, v: vec4<f32>) {
${[0, 1, 2, 3].map(store).join("\n")}
}`;
}

/** Below every logit; what is finite survives a subtraction of another finite number. */
const LOWEST = "-3.0e38";
/** A power of e whose result is 0 in f32: differences below it need not be exact. */
const FLOOR = "vec4<f32>(-110.0)";

function softmaxBuffers(isVector: boolean): Pick<Kernel, "buffers" | "params"> {
  const width = isVector ? 4 : 1;
  return {
    buffers: [{ name: "x", access: "read", width }, { name: "y", access: "read_write", width }],
    params: { rows: "u32", n: "u32", scale: "f32" },
  };
}

/**
 * y = softmax(scale * x) over rows, for software adapters: one row per invocation, in three walks.
 *
 * x, y: [rows, n]; `isVector` needs n divisible by 4. Workgroup: 8 x 1 x 1, grid: rows / 8.
 */
export function softmaxRowKernel(isVector: boolean): Kernel {
  return {
    name: `softmax row${isVector ? "" : " odd n"}`,
    ...softmaxBuffers(isVector),
    workgroupSize: [8, 1, 1],
    body: `${rowAccess(isVector)}
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let row = wg.x * 8u + local.x;
  if (row >= params.rows) { return; }
  let start = row * params.n${isVector ? " / 4u" : ""};
  let words = (params.n + 3u) / 4u;
  var tops = vec4<f32>(${LOWEST});
  for (var word = 0u; word < words; word = word + 1u) { tops = max(tops, four(start, word)); }
  let top = max(max(tops.x, tops.y), max(tops.z, tops.w));
  var sums = vec4<f32>();
  for (var word = 0u; word < words; word = word + 1u) {
    sums = sums + exp(max(four(start, word) - top, ${FLOOR}));
  }
  let norm = 1.0 / (sums.x + sums.y + (sums.z + sums.w));
  for (var word = 0u; word < words; word = word + 1u) {
    put(start, word, exp(max(four(start, word) - top, ${FLOOR})) * norm);
  }
}`,
  };
}

/** Invocations that share a row on GPUs. */
const THREADS = 64;

/**
 * y = softmax(scale * x) over rows, for GPUs: one row per workgroup, maximum and sum reduced in workgroup memory.
 *
 * x, y: [rows, n]; `isVector` needs n divisible by 4. Workgroup: 64 x 1 x 1, grid: rows. Workgroup memory: 256 bytes.
 */
export function softmaxGroupKernel(isVector: boolean): Kernel {
  const reduce = (combine: (a: string, b: string) => string) =>
    `  workgroupBarrier();
  for (var step = ${THREADS / 2}u; step > 0u; step = step / 2u) {
    if (local.x < step) { partial[local.x] = ${
      combine("partial[local.x]", "partial[local.x + step]")
    }; }
    workgroupBarrier();
  }`;
  return {
    name: `softmax group${isVector ? "" : " odd n"}`,
    ...softmaxBuffers(isVector),
    workgroupSize: [THREADS, 1, 1],
    body: `${rowAccess(isVector)}
var<workgroup> partial: array<f32, ${THREADS}>;
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let start = wg.x * params.n${isVector ? " / 4u" : ""};
  let words = (params.n + 3u) / 4u;
  var tops = vec4<f32>(${LOWEST});
  for (var word = local.x; word < words; word = word + ${THREADS}u) { tops = max(tops, four(start, word)); }
  partial[local.x] = max(max(tops.x, tops.y), max(tops.z, tops.w));
${reduce((a, b) => `max(${a}, ${b})`)}
  let top = partial[0];
  workgroupBarrier();
  var sums = vec4<f32>();
  for (var word = local.x; word < words; word = word + ${THREADS}u) {
    sums = sums + exp(max(four(start, word) - top, ${FLOOR}));
  }
  partial[local.x] = sums.x + sums.y + (sums.z + sums.w);
${reduce((a, b) => `${a} + ${b}`)}
  let norm = 1.0 / partial[0];
  for (var word = local.x; word < words; word = word + ${THREADS}u) {
    put(start, word, exp(max(four(start, word) - top, ${FLOOR})) * norm);
  }
}`,
  };
}
