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

/** What a register-tiled convolution is specialised to. */
export interface ConvRegistersSpec extends Omit<ConvFeatures, "hasCache"> {
  /** Pixels per invocation. */
  readonly pixels: number;
  /** Output channels per invocation, a multiple of 4. */
  readonly channels: number;
  /**
   * Lanes load the weights of one channel each and broadcast them: needs subgroups of exactly 8. Software adapters
   * pay per load whatever it loads, so this makes most shapes twice as fast.
   */
  readonly broadcasts: boolean;
}

/** Invocations per workgroup: neighbouring pixels, so that all of them read the same weights at the same time. */
export const CONV_LANES = 8;

/**
 * y = act(x ∗ weight + bias) + residual for software adapters: implicit matrix product with a tile of named
 * registers per invocation, no workgroup memory.
 *
 * x: [batch, x_frames, x_height, x_width, words * width]; weight: [channels, k_frames, k_height, k_width, words * width];
 * bias: [channels]; residual, y: [batch, y_frames, y_height, y_width, channels]. Taps on the zero frames before x are
 * skipped. Workgroup: 8 x 1 x 1; grid: pixels of a frame / (8 * pixels), channels / tile, batch * y_frames. Pixels
 * and channels past the end are computed on clamped addresses and not stored.
 */
export function convRegistersKernel(spec: ConvRegistersSpec): Kernel {
  const { pixels, channels, width, broadcasts } = spec;
  const features: ConvFeatures = { ...spec, hasCache: false };
  const type = width === 4 ? "vec4<f32>" : "f32";
  const eachPixel = (line: (i: number) => string) => each(pixels, line);
  const eachChannel = (line: (j: number) => string) => each(channels, line);
  const rows = broadcasts ? Math.ceil(channels / CONV_LANES) : channels;
  const channelOf = (row: number) => broadcasts ? `${row * CONV_LANES}u + local.x` : `${row}u`;
  const weightOf = (j: number) =>
    broadcasts
      ? `subgroupBroadcast(l${Math.floor(j / CONV_LANES)}, ${j % CONV_LANES}u)`
      : `weight_at(row${j} + tap + k)`;
  const laneLoads = broadcasts
    ? each(rows, (i) => `          let l${i} = weight_at(row${i} + tap + k);`) + "\n"
    : "";
  const products = laneLoads + eachChannel((j) =>
    [
      `          let w${j} = ${weightOf(j)};`,
      ...(width === 4 ? [".x", ".y", ".z", ".w"] : [""]).map((part) =>
        eachPixel((i) => `          s${i}_${j} = fma(x${i}${part}, w${j}${part}, s${i}_${j});`)
      ),
    ].join("\n")
  );
  const names = Array.from({ length: channels }, (_, j) => `n0 + ${j}u`);
  const stores = eachPixel((i) => {
    const sums = names.map((_, j) => `s${i}_${j} + b${j}`);
    return `  if (p${i} < plane) {
${convStoreWgsl(features, `first + p${i}`, names, sums).join("\n")}
  }`;
  });
  return {
    name: `conv registers${broadcasts ? " broadcast" : ""} ${pixels}x${channels}${
      convName(features)
    }`,
    buffers: convBuffers(features),
    params: CONV_PARAMS,
    workgroupSize: [CONV_LANES, 1, 1],
    body: `${convFinishWgsl(features)}
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let plane = params.y_height * params.y_width;
  let first = wg.z * plane;
  let batch = wg.z / params.y_frames;
  let time = (wg.z % params.y_frames) * params.stride_t;
  let words = params.words;
  let row_words = params.k_frames * params.k_height * params.k_width * words;
  let n0 = wg.y * ${channels}u;
${each(rows, (i) => `  let row${i} = min(n0 + ${channelOf(i)}, params.channels - 1u) * row_words;`)}
${
      eachPixel((i) =>
        `  let p${i} = wg.x * ${CONV_LANES * pixels}u + ${CONV_LANES * i}u + local.x;
  let q${i} = min(p${i}, plane - 1u);
  let top${i} = i32((q${i} / params.y_width) * params.stride_h) - params.pad_top;
  let left${i} = i32((q${i} % params.y_width) * params.stride_w) - params.pad_left;
${eachChannel((j) => `  var s${i}_${j} = 0.0;`)}`
      )
    }
  let skipped = max(params.front, time) - time;
  for (var dt = skipped; dt < params.k_frames; dt += 1u) {
    let frame = batch * params.x_frames + time + dt - params.front;
    for (var dh = 0u; dh < params.k_height; dh += 1u) {
      for (var dw = 0u; dw < params.k_width; dw += 1u) {
        let tap = ((dt * params.k_height + dh) * params.k_width + dw) * words;
${
      eachPixel((i) =>
        `        let r${i} = top${i} + i32(dh);
        let c${i} = left${i} + i32(dw);
        let inside${i} = r${i} >= 0 && r${i} < params.seen_height && c${i} >= 0 && c${i} < params.seen_width;
        let h${i} = u32(clamp(r${i}, 0, params.seen_height - 1)) >> params.up_shift;
        let v${i} = u32(clamp(c${i}, 0, params.seen_width - 1)) >> params.up_shift;
        let from${i} = ((frame * params.x_height + h${i}) * params.x_width + v${i}) * words;`
      )
    }
        for (var k = 0u; k < words; k += 1u) {
${eachPixel((i) => `          let x${i} = select(${type}(0.0), x_at(from${i} + k), inside${i});`)}
${products}
        }
      }
    }
  }
${convBiasWgsl(features, names)}
${stores}
}`,
  };
}
