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
import { CONV_LANES } from "./conv_registers.ts";
import { each } from "./each.ts";

/** What a convolution by minimal filtering is specialised to. */
export interface ConvWinogradSpec extends Omit<ConvFeatures, "hasCache"> {
  /** Pairs of pixels per invocation, neighbours in a row. */
  readonly pairs: number;
  /** Output channels per invocation, a multiple of 4. */
  readonly channels: number;
}

/** Products that stand for the six of two pixels and three taps. */
const PRODUCTS = [0, 1, 2, 3];

/**
 * y = act(x ∗ weight + bias) + residual for kernels three columns wide at a stride of 1, on software adapters with
 * subgroups of exactly 8: Winograd's minimal filtering F(2, 3) along the rows. Two neighbours of a row
 *
 *     y0 = x0 g0 + x1 g1 + x2 g2,  y1 = x1 g0 + x2 g1 + x3 g2
 *
 * take four products instead of six,
 *
 *     m0 = (x0 - x2) g0,  m1 = (x1 + x2) (g0 + g1 + g2) / 2,  m2 = (x2 - x1) (g0 - g1 + g2) / 2,  m3 = (x1 - x3) g2,
 *     y0 = m0 + m1 + m2,  y1 = m1 - m2 - m3,
 *
 * of which each is summed up over channels, rows and frames first. Lanes load and transform the weights of one channel
 * each and broadcast them; no workgroup memory.
 *
 * x: [batch, x_frames, x_height, x_width, words * width]; weight: [channels, k_frames, k_height, 3, words * width];
 * bias: [channels]; residual, y: [batch, y_frames, y_height, y_width, channels]. Taps on the zero frames before x are
 * skipped. Workgroup: 8 x 1 x 1; a frame is cut into runs of 2 * pairs pixels that do not cross the end of a row; grid:
 * runs of a frame / 8, channels / tile, batch * y_frames. Pixels and channels past the end are computed on clamped
 * addresses and not stored.
 *
 * Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015.
 */
export function convWinogradKernel(spec: ConvWinogradSpec): Kernel {
  const { pairs, channels, width } = spec;
  const features: ConvFeatures = { ...spec, hasCache: false };
  const type = width === 4 ? "vec4<f32>" : "f32";
  const parts = width === 4 ? [".x", ".y", ".z", ".w"] : [""];
  const pixels = 2 * pairs;
  const rows = Math.ceil(channels / CONV_LANES);
  const eachColumn = (line: (c: number) => string) => each(pixels + 2, line);
  const eachProduct = (line: (m: number) => string) => PRODUCTS.map(line).join("\n");
  const sums = each(
    channels,
    (j) => each(pairs, (p) => eachProduct((m) => `  var s${p}_${m}_${j} = 0.0;`)),
  );
  const transformPair = (p: number) => {
    const [x0, x1, x2, x3] = PRODUCTS.map((c) => `x${2 * p + c}`);
    return `        let u${p}_0 = ${x0} - ${x2};
        let u${p}_1 = ${x1} + ${x2};
        let u${p}_2 = ${x2} - ${x1};
        let u${p}_3 = ${x1} - ${x3};`;
  };
  const transformWeights = (r: number) =>
    `        let g0_${r} = weight_at(row${r} + tap + k);
        let side${r} = weight_at(row${r} + tap + words + k);
        let g3_${r} = weight_at(row${r} + tap + 2u * words + k);
        let g1_${r} = 0.5 * (g0_${r} + side${r} + g3_${r});
        let g2_${r} = 0.5 * (g0_${r} - side${r} + g3_${r});`;
  const products = each(channels, (j) =>
    eachProduct((m) =>
      [
        `        let w${m}_${j} = subgroupBroadcast(g${m}_${Math.floor(j / CONV_LANES)}, ${
          j % CONV_LANES
        }u);`,
        ...parts.map((part) =>
          each(
            pairs,
            (p) =>
              `        s${p}_${m}_${j} = fma(u${p}_${m}${part}, w${m}_${j}${part}, s${p}_${m}_${j});`,
          )
        ),
      ].join("\n")
    ));
  const names = Array.from({ length: channels }, (_, j) => `n0 + ${j}u`);
  const stores = each(pixels, (i) => {
    const p = Math.floor(i / 2);
    const values = names.map((_, j) => {
      const [m0, m1, m2, m3] = PRODUCTS.map((m) => `s${p}_${m}_${j}`);
      return i % 2 === 0 ? `${m0} + ${m1} + ${m2} + b${j}` : `${m1} - ${m2} - ${m3} + b${j}`;
    });
    return `  if (run < runs * params.y_height && column + ${i}u < params.y_width) {
${convStoreWgsl(features, `first + ${i}u`, names, values).join("\n")}
  }`;
  });
  return {
    name: `conv winograd ${pixels}x${channels}${convName(features)}`,
    buffers: convBuffers(features),
    params: CONV_PARAMS,
    workgroupSize: [CONV_LANES, 1, 1],
    body: `${convFinishWgsl(features)}
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let runs = (params.y_width + ${pixels - 1}u) / ${pixels}u;
  let run = wg.x * ${CONV_LANES}u + local.x;
  let row = min(run / runs, params.y_height - 1u);
  let column = (run % runs) * ${pixels}u;
  let first = (wg.z * params.y_height + row) * params.y_width + column;
  let top = i32(row * params.stride_h) - params.pad_top;
  let left = i32(column) - params.pad_left;
  let batch = wg.z / params.y_frames;
  let time = (wg.z % params.y_frames) * params.stride_t;
  let words = params.words;
  let row_words = params.k_frames * params.k_height * 3u * words;
  let n0 = wg.y * ${channels}u;
${
      each(rows, (r) =>
        `  let row${r} = min(n0 + ${r * CONV_LANES}u + local.x, params.channels - 1u) * row_words;`)
    }
${
      eachColumn((c) =>
        `  let c${c} = left + ${c};
  let inside${c} = c${c} >= 0 && c${c} < params.seen_width;
  let v${c} = (u32(clamp(c${c}, 0, params.seen_width - 1)) >> params.up_shift) * words;`
      )
    }
${sums}
  let skipped = max(params.front, time) - time;
  for (var dt = skipped; dt < params.k_frames; dt += 1u) {
    let frame = batch * params.x_frames + time + dt - params.front;
    for (var dh = 0u; dh < params.k_height; dh += 1u) {
      let tap = (dt * params.k_height + dh) * 3u * words;
      let h = top + i32(dh);
      let is_row = h >= 0 && h < params.seen_height;
      let line = (frame * params.x_height + (u32(clamp(h, 0, params.seen_height - 1)) >> params.up_shift)) * params.x_width * words;
      for (var k = 0u; k < words; k += 1u) {
${
      eachColumn((c) =>
        `        let x${c} = select(${type}(0.0), x_at(line + v${c} + k), is_row && inside${c});`
      )
    }
${each(pairs, transformPair)}
${each(rows, transformWeights)}
${products}
      }
    }
  }
${convBiasWgsl(features, names)}
${stores}
}`,
  };
}
