/** Classes of problems, in words: one variant should be the fastest within each, so a tuning run measures one problem of it. */
import { bytesPerElement, type StorageFormat } from "../dtype.ts";
import { BLOCK_FORMATS, isWeightFormat } from "../quantization/formats.ts";

/** Bounds of rows: one, what the few-rows kernels take, short prompts, then about the tiles that a tall product fills. */
const ROWS = [1, 4, 64, 256, 2048];
const COLUMNS = [512];

/** A product of `rows` by `columns` with a weight; sums of different length are one class. */
export function linearClass(
  problem: { readonly rows: number; readonly columns: number; readonly weight: StorageFormat },
): string {
  return [
    atMost("rows", problem.rows, ROWS),
    atMost("columns", problem.columns, COLUMNS),
    weightClass(problem.weight),
  ].join(" ");
}

/** Rows, columns and terms that a product may grow to within its class, with sizes as models have them. */
export function productLimits(rows: number, columns: number): [number, number, number] {
  const bound = (bounds: readonly number[], value: number, most: number) =>
    bounds.find((limit) => value <= limit) ?? most;
  return [bound(ROWS, rows, 8192), bound(COLUMNS, columns, 10240), 10240];
}

/** A product of two activations; `count` matrices in the batch. */
export function matmulClass(
  problem: {
    readonly rows: number;
    readonly columns: number;
    readonly layout: "nk" | "kn";
    readonly count: number;
  },
): string {
  return [
    atMost("rows", problem.rows, ROWS),
    atMost("columns", problem.columns, COLUMNS),
    problem.layout,
    ...(problem.count > 1 ? ["batched"] : []),
  ].join(" ");
}

/** Attention of `queries` to `keys`, per head. */
export function attentionClass(
  problem: { readonly queries: number; readonly keys: number; readonly headDim: number },
): string {
  return [
    atMost("queries", problem.queries, [64, 1024]),
    atMost("keys", problem.keys, [128]),
    atMost("head", problem.headDim, [64]),
  ].join(" ");
}

/** A convolution to `channels` at `pixels` places of a frame, perhaps of what is to be normalised. */
export function convClass(
  problem: { readonly channels: number; readonly pixels: number; readonly isNormed?: boolean },
): string {
  return [
    atMost("channels", problem.channels, [4, 16, 64]),
    atMost("pixels", problem.pixels, [1024, 16384]),
    ...(problem.isNormed ? ["normed"] : []),
  ].join(" ");
}

export function rowClass(problem: { readonly rows: number; readonly columns: number }): string {
  return [
    atMost("rows", problem.rows, [256]),
    atMost("columns", problem.columns, COLUMNS),
  ].join(" ");
}

/** A normalisation over `positions` places of groups of channels. */
export function groupClass({ positions }: { readonly positions: number }): string {
  return atMost("positions", positions, [4096]);
}

/** The first bound that holds `value`, in words: `rows<=64`, `rows>2048`. */
function atMost(name: string, value: number, bounds: readonly number[]): string {
  const bound = bounds.find((limit) => value <= limit);
  return bound === undefined ? `${name}>${bounds.at(-1)}` : `${name}<=${bound}`;
}

/** Decoding costs about the same within: `f32`, `16-bit`, quantised of about 8 bits, quantised of fewer. */
function weightClass(format: StorageFormat): string {
  if (!isWeightFormat(format)) return bytesPerElement(format) === 2 ? "16-bit" : "f32";
  const { blockBytes, blockElements } = BLOCK_FORMATS[format];
  return blockBytes / blockElements >= 1 ? "8-bit" : "4-bit";
}
