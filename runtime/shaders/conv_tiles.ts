import type { Kernel } from "./assemble.ts";
import {
  CONV_PARAMS,
  convBiasWgsl,
  convBuffers,
  type ConvFeatures,
  convFinishWgsl,
  convName,
  convStoreWgsl,
} from "./conv_common.ts";
import { each } from "./each.ts";

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
  return 16 * DEPTH * (tilePixels + spec.channelThreads * spec.channels + 2) + 8 * tilePixels;
}

/**
 * y = act([cache; x] ∗ weight + bias) + residual: implicit matrix product of pixels by channels, the sum running over taps
 * and input channels, with tiles of both operands in workgroup memory.
 *
 * x: [batch, x_frames, x_height, x_width, words * width]; cache: the same with cache_frames; weight: [channels, k_frames,
 * k_height, k_width, words * width]; bias: [channels]; residual, y: [batch, y_frames, y_height, y_width, channels]. Taps on
 * the zero frames before the cache are skipped. Workgroup: channelThreads x pixelThreads x 1; grid: pixels of a frame / tile,
 * channels / tile, batch * y_frames. Channel 4 (g * channelThreads + x) + c of a tile lies in place (4 g + c) *
 * channelThreads + x, and one place is left free after every word, so that neighbouring invocations use different banks.
 */
export function convTilesKernel(spec: ConvTilesSpec): Kernel {
  const { width, pixelThreads, pixels, channelThreads, channels } = spec;
  const tilePixels = pixelThreads * pixels;
  const tileChannels = channelThreads * channels;
  const threads = pixelThreads * channelThreads;
  const groups = channels / 4;
  const step = threads / DEPTH;
  const pixelStride = tilePixels + 1;
  const channelStride = tileChannels + 1;
  const origin = "origins[m]";
  const pixel = width === 4
    ? `tap_at(tap0, ${origin})`
    : `vec4<f32>(${[0, 1, 2, 3].map((i) => `tap_at(tap${i}, ${origin})`).join(", ")})`;
  const channelOf = (j: number) =>
    `n0 + (${Math.floor(j / 4) * channelThreads}u + local.x) * 4u + ${j % 4}u`;
  const names = Array.from({ length: channels }, (_, j) => channelOf(j));
  const stores = each(pixels, (i) => {
    const sums = Array.from({ length: channels }, (_, j) => `s${i}_${j} + b${j}`);
    return `  if (p0 + ${i * pixelThreads}u + local.y < plane) {
${convStoreWgsl(spec, `first + p0 + ${i * pixelThreads}u + local.y`, names, sums).join("\n")}
  }`;
  });
  return {
    name: `conv tiles ${tilePixels}x${tileChannels} by ${pixels}x${channels}${convName(spec)}`,
    buffers: convBuffers(spec),
    params: CONV_PARAMS,
    workgroupSize: [channelThreads, pixelThreads, 1],
    body: `var<workgroup> x_tile: array<vec4<f32>, ${DEPTH * pixelStride}>;
var<workgroup> w_tile: array<vec4<f32>, ${DEPTH * channelStride}>;
var<workgroup> origins: array<vec2<i32>, ${tilePixels}>;
${convFinishWgsl(spec)}
${convLoadersWgsl(spec)}
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
${each(4 / width, (i) => `    let tap${i} = tap_of(k + ${i}u, row_words, batch, time);`)}
    for (var m = lane_m; m < ${tilePixels}u; m += ${step}u) {
      x_tile[lane_k * ${pixelStride}u + m] = ${pixel};
    }
    for (var m = lane_m; m < ${tileChannels}u; m += ${step}u) {
      let place = ((m / ${4 * channelThreads}u) * 4u + m % 4u) * ${channelThreads}u + (m % ${
      4 * channelThreads
    }u) / 4u;
      w_tile[lane_k * ${channelStride}u + place] = weight_four(k, row_words, min(n0 + m, params.channels - 1u) * row_words);
    }
    workgroupBarrier();
    for (var d = 0u; d < ${DEPTH}u; d += 1u) {
${
      each(pixels, (i) =>
        `      let x${i} = x_tile[d * ${pixelStride}u + ${i * pixelThreads}u + local.y];`)
    }
${
      each(groups, (g) =>
        each(4, (c) =>
          `      let w${g * 4 + c} = w_tile[d * ${channelStride}u + ${
            (g * 4 + c) * channelThreads
          }u + local.x];`))
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
${convBiasWgsl(spec, names)}
${stores}
}`,
  };
}

/**
 * `tap_of` and `tap_at`, see {@linkcode tapWgsl}, and `weight_four(k, end, row)`: four weights from element or word `k` of
 * the sum on, of the row at `row`; zeros from `end` on.
 */
export function convLoadersWgsl({ width, hasCache }: ConvFeatures): string {
  const type = width === 4 ? "vec4<f32>" : "f32";
  return `fn source_at(word: u32${hasCache ? ", is_cached: bool" : ""}) -> ${type} {
${hasCache ? "  if (is_cached) { return cache_at(word); }\n" : ""}  return x_at(word);
}
${tapWgsl(hasCache, type)}
${width === 4 ? WEIGHT_WORDS : WEIGHT_SCALARS}`;
}

/** A place in the sum: which row and column of the kernel, and where in the input its words lie. */
const TAP_STRUCT = (hasCache: boolean) =>
  `struct Tap {
  is_there: bool,
  row: i32,
  column: i32,
  line: u32,
  word: u32,${hasCache ? "\n  is_cached: bool," : ""}
}`;

/**
 * `tap_of(k, …)`: the tap of element or word `k`, the same for all pixels; `tap_at(tap, origin)`: its value for the
 * pixel whose first tap is at `origin` (row, column); zero outside.
 */
function tapWgsl(hasCache: boolean, type: string): string {
  return `${TAP_STRUCT(hasCache)}
fn tap_of(k: u32, end: u32, batch: u32, time: u32) -> Tap {
  let tap = k / params.words;
  let line = tap / params.k_width;
  let age = time + line / params.k_height - params.front;
${
    hasCache
      ? `  let is_cached = age < params.cache_frames;
  let frame = select(batch * params.x_frames + age - params.cache_frames, batch * params.cache_frames + age, is_cached);`
      : "  let frame = batch * params.x_frames + age;"
  }
  return Tap(k < end, i32(line % params.k_height), i32(tap % params.k_width), frame * params.x_height,
    k % params.words${hasCache ? ", is_cached" : ""});
}
fn tap_at(tap: Tap, origin: vec2<i32>) -> ${type} {
  let row = origin.x + tap.row;
  let column = origin.y + tap.column;
  if (!tap.is_there || row < 0 || row >= params.seen_height || column < 0 || column >= params.seen_width) {
    return ${type}(0.0);
  }
  let h = u32(row) >> params.up_shift;
  let v = u32(column) >> params.up_shift;
  return source_at(((tap.line + h) * params.x_width + v) * params.words + tap.word${
    hasCache ? ", tap.is_cached" : ""
  });
}`;
}

const WEIGHT_WORDS = `fn weight_four(k: u32, end: u32, row: u32) -> vec4<f32> {
  if (k >= end) { return vec4<f32>(0.0); }
  return weight_at(row + k);
}`;

const WEIGHT_SCALARS = `fn weight_one(k: u32, end: u32, row: u32) -> f32 {
  if (k >= end) { return 0.0; }
  return weight_at(row + k);
}
fn weight_four(k: u32, end: u32, row: u32) -> vec4<f32> {
  return vec4<f32>(weight_one(k, end, row), weight_one(k + 1u, end, row), weight_one(k + 2u, end, row),
    weight_one(k + 3u, end, row));
}`;
