/** A layer normalisation of the rows of a, as part of a matrix product that broadcasts them. */
import type { BufferSlot, ParamType } from "./assemble.ts";

/**
 * a stands for n(a) ⊙ gain + offset, n the layer normalisation of its rows: gain is
 * weight · (1 + scale), offset bias · (1 + scale) + shift, each a vector of k; those left out cost nothing.
 *
 * Mean and deviation need the whole row, so that they come last: with a pivot p in each row, the walk sums
 * s = Σ (a - p) · gain · b beside the columns' own Σ gain · b and Σ offset · b, and afterwards the result is
 * (s - (mean - p) · Σ gain · b) / deviation + Σ offset · b. The pivot is the mean of a row's first four elements: it
 * is at most half of √k deviations from the mean, so that no row loses more digits than that in the differences.
 */
export interface GemmNorm {
  readonly weight: boolean;
  readonly bias: boolean;
  readonly scale: boolean;
  readonly shift: boolean;
}

const VECTORS = ["weight", "bias", "scale", "shift"] as const;

function vectorsOf(norm: GemmNorm | undefined) {
  return VECTORS.filter((name) => norm?.[name]);
}

/** The normalisation's part of a kernel's name. */
export function normName(norm: GemmNorm | undefined): string {
  return norm ? [" norm", ...vectorsOf(norm)].join(" ") : "";
}

/** Buffers that it reads. */
export function normBuffers(norm: GemmNorm | undefined): BufferSlot[] {
  return vectorsOf(norm).map((name) => ({ name: `norm_${name}`, access: "read", width: 4 }));
}

/** Parameters that it reads besides `k`. */
export function normParams(norm: GemmNorm | undefined): Record<string, ParamType> {
  return norm ? { norm_eps: "f32" } : {};
}

/** Where a kernel keeps what, by the number of a load of eight rows, of a group of four columns, and of a row. */
export interface GemmNormTile {
  readonly lanes: number;
  readonly rows: number;
  /** Groups of columns. */
  readonly groups: number;
}

const each = (count: number, line: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => line(i)).join("\n");
const loadsOf = ({ rows, lanes }: GemmNormTile) => Math.ceil(rows / lanes);

/** Before the walk: pivots and empty sums; `start(g)` is what group g of the columns begins at. */
export function normStart(tile: GemmNormTile, start: (g: number) => string): string {
  return [
    each(
      loadsOf(tile),
      (i) =>
        `  let pivot${i} = vec4<f32>(dot(a_four(a${i}, 0u), vec4<f32>(0.25)));
  var moment${i} = vec4<f32>();
  var square${i} = vec4<f32>();`,
    ),
    each(
      tile.groups,
      (g) => `  var gains${g} = vec4<f32>();\n  var offsets${g} = ${start(g)};`,
    ),
  ].join("\n");
}

/** In the walk, where row i of four of b's is `w{g}_{i}`: declares `l{i}`, the loads of a that are broadcast. */
export function normStep(norm: GemmNorm, tile: GemmNormTile): string {
  const { weight, bias, scale, shift } = norm;
  const factor = scale ? "(1.0 + norm_scale_at(k))" : undefined;
  const gain = [weight && "norm_weight_at(k)", factor && "factor"].filter((part) => part);
  const offset = [
    bias && (factor ? "norm_bias_at(k) * factor" : "norm_bias_at(k)"),
    shift && "norm_shift_at(k)",
  ].filter((part) => part);
  const along = (sums: string, vector: string) =>
    each(
      tile.groups,
      (g) =>
        each(4, (i) =>
          `    ${sums}${g} = fma(vec4<f32>(${vector}.${"xyzw"[i]}), w${g}_${i}, ${sums}${g});`),
    );
  return [
    factor && `    let factor = ${factor};`,
    `    let gain = ${gain.length > 0 ? gain.join(" * ") : "vec4<f32>(1.0)"};`,
    along("gains", "gain"),
    offset.length > 0 && `    let offset = ${offset.join(" + ")};\n${along("offsets", "offset")}`,
    each(loadsOf(tile), (i) =>
      `    let v${i} = a_four(a${i}, k) - pivot${i};
    moment${i} = moment${i} + v${i};
    square${i} = fma(v${i}, v${i}, square${i});
    let l${i} = v${i} * gain;`),
  ].filter((part) => part).join("\n");
}

/** After the walk: the sums `s{r}_{g}` become those of normalised rows. */
export function normFinish(tile: GemmNormTile): string {
  const { lanes, rows, groups } = tile;
  return [
    each(loadsOf(tile), (i) =>
      `  let mean${i} = dot(moment${i}, vec4<f32>(1.0)) / f32(params.k);
  let spread${i} = dot(square${i}, vec4<f32>(1.0)) / f32(params.k) - mean${i} * mean${i};
  let factor${i} = inverseSqrt(max(spread${i}, 0.0) + params.norm_eps);`),
    each(rows, (r) => {
      const [load, lane] = [Math.floor(r / lanes), r % lanes];
      return [
        `  let mean_of${r} = subgroupBroadcast(mean${load}, ${lane}u);`,
        `  let factor_of${r} = subgroupBroadcast(factor${load}, ${lane}u);`,
        each(
          groups,
          (g) =>
            `  s${r}_${g} = (s${r}_${g} - mean_of${r} * gains${g}) * factor_of${r} + offsets${g};`,
        ),
      ].join("\n");
    }),
  ].join("\n");
}
