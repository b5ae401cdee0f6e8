import type { Kernel } from "./assemble.ts";
import {
  CONV_PARAMS,
  convBuffers,
  type ConvFeatures,
  convFinishWgsl,
  convName,
  convStoreWgsl,
} from "./conv_common.ts";

/** What a convolution with tiles in workgroup memory is specialised to. */
export interface ConvTilesSpec extends ConvFeatures {
  /** Invocations of a workgroup along the pixels, and pixels that each of them computes. */
  readonly pixelThreads: number;
  readonly pixels: number;
  /** Invocations of a workgroup along the channels, and output channels that each computes: a multiple of 4. */
  readonly channelThreads: number;
  readonly channels: number;
}

/** Words of four elements along the sum that lie in workgroup memory at a time. */
const DEPTH = 4;

/** Bytes of workgroup memory of a kernel. */
export function convTilesMemory(
  spec: Pick<ConvTilesSpec, "pixelThreads" | "pixels" | "channelThreads" | "channels">,
): number {
  const tilePixels = spec.pixelThreads * spec.pixels;
  return 16 * DEPTH * (tilePixels + spec.channelThreads * spec.channels) + 8 * tilePixels;
}

/**
 * y = act([cache; x] ∗ weight + bias) + residual: implicit matrix product of pixels by channels, the sum running over taps
 * and input channels, with tiles of both operands in workgroup memory.
 *
 * x: [batch, x_frames, x_height, x_width, words * width]; cache: the same with cache_frames; weight: [channels, k_frames,
 * k_height, k_width, words * width]; bias: [channels]; residual, y: [batch, y_frames, y_height, y_width, channels]. Taps on
 * the zero frames before the cache are skipped. Workgroup: channelThreads x pixelThreads x 1; grid: pixels of a frame / tile,
 * channels / tile, batch * y_frames.
 */
export function convTilesKernel(spec: ConvTilesSpec): Kernel {
  const { width, hasCache, pixelThreads, pixels, channelThreads, channels } = spec;
  const tilePixels = pixelThreads * pixels;
  const tileChannels = channelThreads * channels;
  const threads = pixelThreads * channelThreads;
  const groups = channels / 4;
  const step = threads / DEPTH;
  const channelOf = (j: number) =>
    `n0 + (${Math.floor(j / 4) * channelThreads}u + local.x) * 4u + ${j % 4}u`;
  const stores = each(pixels, (i) => {
    const names = Array.from({ length: channels }, (_, j) => channelOf(j));
    const sums = Array.from({ length: channels }, (_, j) => `s${i}_${j}`);
    return `  if (p0 + ${i * pixelThreads}u + local.y < plane) {
${convStoreWgsl(spec, `first + p0 + ${i * pixelThreads}u + local.y`, names, sums).join("\n")}
  }`;
  });
  return {
    name: `conv tiles ${tilePixels}x${tileChannels} by ${pixels}x${channels}${convName(spec)}`,
    buffers: convBuffers(spec),
    params: CONV_PARAMS,
    workgroupSize: [channelThreads, pixelThreads, 1],
    body: `var<workgroup> x_tile: array<vec4<f32>, ${DEPTH * tilePixels}>;
var<workgroup> w_tile: array<vec4<f32>, ${DEPTH * tileChannels}>;
var<workgroup> origins: array<vec2<i32>, ${tilePixels}>;
${convFinishWgsl(spec)}
fn source_at(word: u32${hasCache ? ", is_cached: bool" : ""}) -> ${
      width === 4 ? "vec4<f32>" : "f32"
    } {
${hasCache ? "  if (is_cached) { return cache_at(word); }\n" : ""}  return x_at(word);
}
${tapWgsl(hasCache, width === 4 ? "vec4<f32>" : "f32")}
${width === 4 ? FOUR_WORDS : FOUR_SCALARS}
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let plane = params.y_height * params.y_width;
  let first = wg.z * plane;
  let batch = wg.z / params.y_frames;
  let time = (wg.z % params.y_frames) * params.stride_t;
  let taps = params.k_height * params.k_width;
  let row_words = params.k_frames * taps * params.words;
  let p0 = wg.x * ${tilePixels}u;
  let n0 = wg.y * ${tileChannels}u;
  let id = local.y * ${channelThreads}u + local.x;
  let lane_k = id % ${DEPTH}u;
  let lane_m = id / ${DEPTH}u;
  for (var m = id; m < ${tilePixels}u; m += ${threads}u) {
    let q = min(p0 + m, plane - 1u);
    origins[m] = vec2<i32>(i32((q / params.y_width) * params.stride_h) - params.pad_top,
      i32((q % params.y_width) * params.stride_w) - params.pad_left);
  }
  workgroupBarrier();
${each(pixels, (i) => each(channels, (j) => `  var s${i}_${j} = 0.0;`))}
  let skipped = max(params.front, time) - time;
  for (var k0 = skipped * taps * params.words; k0 < row_words; k0 += ${DEPTH * 4 / width}u) {
    let k = k0 + lane_k * ${4 / width}u;
    for (var m = lane_m; m < ${tilePixels}u; m += ${step}u) {
      x_tile[lane_k * ${tilePixels}u + m] = pixel_four(k, row_words, batch, time, origins[m]);
    }
    for (var m = lane_m; m < ${tileChannels}u; m += ${step}u) {
      w_tile[lane_k * ${tileChannels}u + m] = weight_four(k, row_words, min(n0 + m, params.channels - 1u) * row_words);
    }
    workgroupBarrier();
    for (var d = 0u; d < ${DEPTH}u; d += 1u) {
${
      each(pixels, (i) =>
        `      let x${i} = x_tile[d * ${tilePixels}u + ${i * pixelThreads}u + local.y];`)
    }
${
      each(groups, (g) =>
        each(4, (c) =>
          `      let w${g * 4 + c} = w_tile[d * ${tileChannels}u + (${
            g * channelThreads
          }u + local.x) * 4u + ${c}u];`))
    }
${
      each(pixels, (i) =>
        each(channels, (j) =>
          [".x", ".y", ".z", ".w"].map((part) =>
            `      s${i}_${j} = fma(x${i}${part}, w${j}${part}, s${i}_${j});`
          ).join("\n")))
    }
    }
    workgroupBarrier();
  }
${stores}
}`,
  };
}

/** Reads the input at element or word `k` of the sum for the pixel whose first tap is at `origin` (row, column); zero outside. */
function tapWgsl(hasCache: boolean, type: string): string {
  return `fn tap_word(k: u32, batch: u32, time: u32, origin: vec2<i32>) -> ${type} {
  let tap = k / params.words;
  let line = tap / params.k_width;
  let row = origin.x + i32(line % params.k_height);
  let column = origin.y + i32(tap % params.k_width);
  if (row < 0 || row >= params.seen_height || column < 0 || column >= params.seen_width) { return ${type}(0.0); }
  let age = time + line / params.k_height - params.front;
${
    hasCache
      ? `  let is_cached = age < params.cache_frames;
  let frame = select(batch * params.x_frames + age - params.cache_frames, batch * params.cache_frames + age, is_cached);`
      : "  let frame = batch * params.x_frames + age;"
  }
  let h = u32(row) >> params.up_shift;
  let v = u32(column) >> params.up_shift;
  let word = ((frame * params.x_height + h) * params.x_width + v) * params.words + k % params.words;
  return source_at(word${hasCache ? ", is_cached" : ""});
}`;
}

const FOUR_WORDS =
  `fn pixel_four(k: u32, end: u32, batch: u32, time: u32, origin: vec2<i32>) -> vec4<f32> {
  if (k >= end) { return vec4<f32>(0.0); }
  return tap_word(k, batch, time, origin);
}
fn weight_four(k: u32, end: u32, row: u32) -> vec4<f32> {
  if (k >= end) { return vec4<f32>(0.0); }
  return weight_at(row + k);
}`;

const FOUR_SCALARS =
  `fn pixel_one(k: u32, end: u32, batch: u32, time: u32, origin: vec2<i32>) -> f32 {
  if (k >= end) { return 0.0; }
  return tap_word(k, batch, time, origin);
}
fn pixel_four(k: u32, end: u32, batch: u32, time: u32, origin: vec2<i32>) -> vec4<f32> {
  return vec4<f32>(pixel_one(k, end, batch, time, origin), pixel_one(k + 1u, end, batch, time, origin),
    pixel_one(k + 2u, end, batch, time, origin), pixel_one(k + 3u, end, batch, time, origin));
}
fn weight_one(k: u32, end: u32, row: u32) -> f32 {
  if (k >= end) { return 0.0; }
  return weight_at(row + k);
}
fn weight_four(k: u32, end: u32, row: u32) -> vec4<f32> {
  return vec4<f32>(weight_one(k, end, row), weight_one(k + 1u, end, row), weight_one(k + 2u, end, row),
    weight_one(k + 3u, end, row));
}`;

function each(count: number, line: (i: number) => string): string {
  return Array.from({ length: count }, (_, i) => line(i)).join("\n");
}
