/** Filters along time, of rows [length, channels]: each is a product of a band of taps with pieces that overlap. */
import { concat, gather, matmul, slice, type Tensor } from "../../../runtime/mod.ts";
import { sharedConstant } from "../shared_constant.ts";

/** About how many results a product has. */
const RESULTS = 64;

interface Piece {
  readonly name: string;
  /** Rows of the result, and of the input, from one piece to the next. */
  readonly results: number;
  readonly inputs: number;
  /** The tap by which input row `q` counts for result row `p`, both counted from the piece's first. */
  readonly tap: (p: number, q: number) => number;
  /** The first and the last input row that counts. */
  readonly from: number;
  readonly to: number;
  readonly length: number;
  readonly scale: number;
}

/** Beyond the ends of `x` its first and last rows stand still. */
function filtered(x: Tensor, filter: Tensor, piece: Piece): Tensor {
  const { graph } = x;
  const [rows, channels] = x.shape as [number, number];
  const { name, results, inputs, tap, from, to, length, scale } = piece;
  const taps = filter.size;
  const width = to - from + 1;
  const count = Math.ceil(length / results);
  const places = sharedConstant(graph, `${name} places of ${rows}, ${taps} taps`, {
    shape: [count, width],
    dtype: "u32",
    values: () =>
      Uint32Array.from(
        { length: count * width },
        (_, i) =>
          Math.min(
            rows - 1,
            Math.max(0, Math.floor(i / width) * inputs + from + i % width),
          ),
      ),
  });
  const band = sharedConstant(graph, `${name} band of ${taps} taps`, {
    shape: [results, width],
    dtype: "u32",
    values: () =>
      Uint32Array.from({ length: results * width }, (_, i) => {
        const k = tap(Math.floor(i / width), from + i % width);
        return k >= 0 && k < taps ? k : taps;
      }),
  });
  const zero = sharedConstant(graph, "no tap", {
    shape: [1, 1],
    dtype: "f32",
    values: () => [0],
  });
  const table = concat([filter.reshape(taps, 1), zero], 0);
  const factors = gather(table, band).reshape(1, results, width);
  const pieces = gather(x, places, { name: `${name} pieces` });
  const y = matmul(factors, pieces, { scale, name });
  return slice(y.reshape(count * results, channels), 0, 0, length);
}

/** `ratio` times as many rows: y[m] = ratio · Σ f[m + shift - ratio·i] x[i], as a transposed convolution whose ends are cut. */
export function upsampleRows(x: Tensor, filter: Tensor, ratio: number, shift: number): Tensor {
  const inputs = Math.ceil(RESULTS / ratio);
  const results = inputs * ratio;
  return filtered(x, filter, {
    name: `upsample by ${ratio}`,
    results,
    inputs,
    tap: (p, q) => p + shift - ratio * q,
    from: Math.ceil((shift - filter.size + 1) / ratio),
    to: Math.floor((results - 1 + shift) / ratio),
    length: x.dim(0) * ratio,
    scale: ratio,
  });
}

/** A row of the result for `ratio` of the input: y[n] = Σ f[k] x[ratio·n + k - before]. */
export function downsampleRows(x: Tensor, filter: Tensor, ratio: number, before: number): Tensor {
  return filtered(x, filter, {
    name: `downsample by ${ratio}`,
    results: RESULTS,
    inputs: RESULTS * ratio,
    tap: (p, q) => q - ratio * p + before,
    from: -before,
    to: ratio * (RESULTS - 1) + filter.size - 1 - before,
    length: Math.floor((x.dim(0) - 1) / ratio) + 1,
    scale: 1,
  });
}

/** The low-pass filter of a resampler by `ratio`, a windowed sinc. Source: `UpSample1d` of diffusers' vocoder. */
export function hannFilter(ratio: number): { readonly taps: Float32Array; readonly shift: number } {
  const [rolloff, width] = [0.99, 6];
  const reach = Math.ceil(width / rolloff);
  const taps = Float32Array.from({ length: 2 * reach * ratio + 1 }, (_, i) => {
    const time = (i / ratio - reach) * rolloff;
    const clamped = Math.max(-width, Math.min(width, time));
    const sinc = time === 0 ? 1 : Math.sin(Math.PI * time) / (Math.PI * time);
    return sinc * Math.cos(clamped * Math.PI / width / 2) ** 2 * rolloff / ratio;
  });
  return { taps, shift: reach * ratio };
}
