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
import { convLoadersWgsl } from "./conv_tiles.ts";
import {
  MATRIX_DEPTH,
  matrixKernel,
  matrixResultsWgsl,
  matrixRows,
  type MatrixSource,
  matrixSumsWgsl,
  matrixThreads,
  type MatrixTile,
  matrixTileBytes,
  matrixTileWgsl,
  matrixWalkWgsl,
} from "./matrix_tiles.ts";

/** What a convolution on matrix units is specialised to. */
export interface ConvMatrixSpec extends ConvFeatures {
  /** Pixels by output channels. */
  readonly tile: MatrixTile;
}

/** Bytes of workgroup memory of a kernel: tiles, sums, and where the pixels' first taps are. */
export function convMatrixBytes(tile: MatrixTile): number {
  return matrixTileBytes(tile, "nk") + 8 * tile.rows;
}

/**
 * y = act([cache; x] ∗ weight + bias) + residual on matrix units: see `matrix_tiles.ts`. Pixels are gathered tap by tap
 * while a tile is filled, so that no matrix of them is ever in memory. Inputs and weights are rounded to f16, sums are f32.
 *
 * x: [batch, x_frames, x_height, x_width, words * width]; cache: the same with cache_frames; weight: [channels, k_frames,
 * k_height, k_width, words * width]; bias: [channels]; residual, y: [batch, y_frames, y_height, y_width, channels]. Taps on
 * the zero frames before the cache are skipped. Workgroup: four subgroups; grid: pixels of a frame / rows, channels /
 * columns of the tile, batch * y_frames.
 */
export function convMatrixKernel(spec: ConvMatrixSpec): Kernel {
  const { tile, width } = spec;
  const perWord = 4 / width;
  const start = (k: string) => `skipped + (${k}) * ${perWord}u`;
  const pixel = (origin: string) =>
    width === 4
      ? `tap_at(tap0, ${origin})`
      : `vec4<f32>(${[0, 1, 2, 3].map((i) => `tap_at(tap${i}, ${origin})`).join(", ")})`;
  const rows = matrixRows("a", tile.rows, tile.unit, (row) => pixel(`origins[${row}]`));
  // An invocation brings the same words of the sum for all of its pixels.
  const pixels: MatrixSource = {
    ...rows,
    fetch: (k) => {
      const taps = Array.from(
        { length: perWord },
        (_, i) =>
          `    let tap${i} = tap_of(${
            start(`${k} + thread % ${MATRIX_DEPTH}u`)
          } + ${i}u, row_words, batch, time);`,
      );
      return `    {\n${taps.join("\n")}\n${rows.fetch(k)}\n    }`;
    },
  };
  const weights = matrixRows(
    "b",
    tile.columns,
    tile.unit,
    (row, k) =>
      `weight_four(${start(k)}, row_words, min(n0 + ${row}, params.channels - 1u) * row_words)`,
  );
  const channels = [0, 1, 2, 3].map((i) => `n0 + column + ${i}u`);
  const sums = ["x", "y", "z", "w"].map((part, i) => `sum.${part} + b${i}`);
  const store = `    if (p0 + row < plane) {
${convBiasWgsl(spec, channels)}
${convStoreWgsl(spec, "first + p0 + row", channels, sums).join("\n")}
    }`;
  return matrixKernel(tile, {
    name: `conv matrix${convName(spec)}`,
    buffers: convBuffers(spec),
    params: CONV_PARAMS,
    body: `${convLoadersWgsl(spec)}
${convFinishWgsl(spec)}
${matrixTileWgsl(tile, "nk")}
var<workgroup> origins: array<vec2<i32>, ${tile.rows}>;
fn kernel(wg: vec3<u32>, local: vec3<u32>, subgroup: u32) {
  let thread = local.x;
  let plane = params.y_height * params.y_width;
  let first = wg.z * plane;
  let batch = wg.z / params.y_frames;
  let time = (wg.z % params.y_frames) * params.stride_t;
  let taps = params.k_height * params.k_width;
  let row_words = params.k_frames * taps * params.words;
  let skipped = (max(params.front, time) - time) * taps * params.words;
  let steps = (max(row_words, skipped) - skipped + ${perWord - 1}u) / ${perWord}u;
  let p0 = wg.x * ${tile.rows}u;
  let n0 = wg.y * ${tile.columns}u;
  for (var row = thread; row < ${tile.rows}u; row = row + ${matrixThreads(tile.unit)}u) {
    let pixel = min(p0 + row, plane - 1u);
    origins[row] = vec2<i32>(i32((pixel / params.y_width) * params.stride_h) - params.pad_top,
      i32((pixel % params.y_width) * params.stride_w) - params.pad_left);
  }
  workgroupBarrier();
${matrixSumsWgsl(tile)}
${matrixWalkWgsl(tile, "nk", pixels, weights)}
${matrixResultsWgsl(tile, store)}
}`,
  });
}
