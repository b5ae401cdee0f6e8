import { type Activation, activationWgsl } from "./activations.ts";
import type { Kernel } from "./assemble.ts";

/**
 * Per channel and chunk of positions: mean of `x - x[b, 0, c]`, and the sum of squared deviations from that mean.
 *
 * x: [batch, positions, words * width]; partial: [batch, chunks, 2, words * width]. One invocation per
 * (batch, chunk, word). Workgroup: 64 x 1 x 1, grid: batch * chunks * words / 64.
 */
export function groupNormPartialKernel(width: 1 | 4): Kernel {
  const type = width === 4 ? "vec4<f32>" : "f32";
  return {
    name: `group_norm_partial w${width}`,
    buffers: [
      { name: "x", access: "read", width },
      { name: "partial", access: "read_write", width },
    ],
    params: { count: "u32", words: "u32", positions: "u32", chunks: "u32", chunk_rows: "u32" },
    workgroupSize: [64, 1, 1],
    body: `fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let id = wg.x * 64u + local.x;
  if (id >= params.count) { return; }
  let words = params.words;
  let word = id % words;
  let block = id / words;
  let chunk = block % params.chunks;
  let origin = (block / params.chunks) * params.positions * words + word;
  let pivot = x_at(origin);
  let first = chunk * params.chunk_rows;
  let last = min(first + params.chunk_rows, params.positions);
  let inverse = 1.0 / f32(last - first);
${chunkSumWgsl("moment", type, "(x_at(AT) - pivot)", false)}
  let mean = moment * inverse;
${chunkSumWgsl("spread", type, "((x_at(AT) - pivot) - mean)", true)}
  let at = block * 2u * words + word;
  partial_put(at, mean);
  partial_put(at + words, spread);
}`,
  };
}

/** Declares `name`: sum of `element` (AT stands for its place) or of its square over the chunk, four sums at a time. */
function chunkSumWgsl(name: string, type: string, element: string, squared: boolean): string {
  const add = (slot: number, row: string) =>
    `    let v${slot} = ${element.replace("AT", `origin + (${row}) * words`)};
    ${name}${slot} += ${squared ? `v${slot} * v${slot}` : `v${slot}`};`;
  return `  var ${name}0 = ${type}(0.0);
  var ${name}1 = ${type}(0.0);
  var ${name}2 = ${type}(0.0);
  var ${name}3 = ${type}(0.0);
  var ${name}_row = first;
  for (; ${name}_row + 3u < last; ${name}_row += 4u) {
${[0, 1, 2, 3].map((slot) => add(slot, `${name}_row + ${slot}u`)).join("\n")}
  }
  for (; ${name}_row < last; ${name}_row += 1u) {
${add(0, `${name}_row`)}
  }
  let ${name} = (${name}0 + ${name}1) + (${name}2 + ${name}3);`;
}

/** What the kernel that joins partial sums is specialised to. */
export interface GroupNormCombineSpec {
  readonly hasWeight: boolean;
  readonly hasBias: boolean;
  /** Invocations per group: 1, or a power of two whose sums meet in workgroup memory. */
  readonly lanes: number;
}

/**
 * Joins the partial sums of a group and writes, per channel, what {@linkcode groupNormApplyKernel} needs:
 * pivot, factor and offset of y = (x - pivot) * factor + offset.
 *
 * x: [batch, positions, channels]; partial: [batch, chunks, 2, channels]; weight, bias: [channels];
 * affine: [batch, 3, channels]. Workgroup: lanes x 1 x 1, one group of one batch entry each; grid: batch * groups.
 */
export function groupNormCombineKernel(spec: GroupNormCombineSpec): Kernel {
  const { hasWeight, hasBias, lanes } = spec;
  const vectors = [...(hasWeight ? ["weight"] : []), ...(hasBias ? ["bias"] : [])];
  const reduce = (value: string) => (lanes > 1 ? `reduce(${value}, local.x)` : value);
  return {
    name: `group_norm_combine x${lanes} ${vectors.join(" ")}`,
    buffers: [
      { name: "x", access: "read", width: 1 },
      { name: "partial", access: "read", width: 1 },
      ...vectors.map((name) => ({ name, access: "read" as const, width: 1 as const })),
      { name: "affine", access: "read_write", width: 1 },
    ],
    params: {
      groups: "u32",
      channels: "u32",
      positions: "u32",
      chunks: "u32",
      chunk_rows: "u32",
      eps: "f32",
    },
    workgroupSize: [lanes, 1, 1],
    body: `${lanes > 1 ? reductionWgsl(lanes) : ""}
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let channels = params.channels;
  let own = channels / params.groups;
  let batch = wg.x / params.groups;
  let first = (wg.x % params.groups) * own;
  let origin = batch * params.positions * channels;
  let pivot = x_at(origin + first);
  let items = params.chunks * own;
  let size = f32(params.positions) * f32(own);
  var moment = 0.0;
  for (var i = local.x; i < items; i += ${lanes}u) {
    let chunk = i / own;
    let channel = first + i % own;
    let rows = f32(min(params.chunk_rows, params.positions - chunk * params.chunk_rows));
    let mean = partial_at((batch * params.chunks + chunk) * 2u * channels + channel);
    moment += rows * ((x_at(origin + channel) - pivot) + mean);
  }
  let center = ${reduce("moment")} / size;
  var spread = 0.0;
  for (var i = local.x; i < items; i += ${lanes}u) {
    let chunk = i / own;
    let channel = first + i % own;
    let rows = f32(min(params.chunk_rows, params.positions - chunk * params.chunk_rows));
    let at = (batch * params.chunks + chunk) * 2u * channels + channel;
    let apart = ((x_at(origin + channel) - pivot) + partial_at(at)) - center;
    spread += partial_at(at + channels) + rows * apart * apart;
  }
  let scale = inverseSqrt(${reduce("spread")} / size + params.eps);
  for (var c = local.x; c < own; c += ${lanes}u) {
    let channel = first + c;
    let factor = scale${hasWeight ? " * weight_at(channel)" : ""};
    let at = batch * 3u * channels + channel;
    affine_put(at, pivot);
    affine_put(at + channels, factor);
    affine_put(at + 2u * channels, ${hasBias ? "bias_at(channel) " : ""}- center * factor);
  }
}`,
  };
}

function reductionWgsl(lanes: number): string {
  const steps: string[] = [];
  for (let half = lanes / 2; half >= 1; half /= 2) {
    steps.push(
      `  if (lane < ${half}u) { sums[lane] += sums[lane + ${half}u]; }\n  workgroupBarrier();`,
    );
  }
  return `var<workgroup> sums: array<f32, ${lanes}>;
fn reduce(own: f32, lane: u32) -> f32 {
  sums[lane] = own;
  workgroupBarrier();
${steps.join("\n")}
  let sum = sums[0];
  workgroupBarrier();
  return sum;
}`;
}

/**
 * y = act((x - pivot) * factor + offset), with one of each per batch entry and channel.
 *
 * x, y: [batch, positions, words * width]; affine: [batch, 3, words * width]. Workgroup: 64 x 1 x 1, grid: words of x / 64.
 */
export function groupNormApplyKernel(width: 1 | 4, activation: Activation): Kernel {
  const type = width === 4 ? "vec4<f32>" : "f32";
  return {
    name: `group_norm_apply w${width} ${activation}`,
    buffers: [
      { name: "x", access: "read", width },
      { name: "affine", access: "read", width },
      { name: "y", access: "read_write", width },
    ],
    params: { count: "u32", words: "u32", positions: "u32" },
    workgroupSize: [64, 1, 1],
    body: `${activationWgsl(activation, type)}
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let i = wg.x * 64u + local.x;
  if (i >= params.count) { return; }
  let words = params.words;
  let at = (i / (words * params.positions)) * 3u * words + i % words;
  let value = (x_at(i) - affine_at(at)) * affine_at(at + words) + affine_at(at + 2u * words);
  y_put(i, act_${activation}(value));
}`,
  };
}
