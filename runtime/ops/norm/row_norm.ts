import type { Tensor } from "../../graph/graph.ts";
import { formatShape, sameShape } from "../../shape.ts";
import { KernelFile } from "../../shaders/kernel_file.ts";
import rowSource from "../../shaders/norm/row.wgsl" with { type: "text" };
import type { Target } from "../../target.ts";
import { rowClass } from "../problem_class.ts";
import { chooseVariant, MESA_SOFTWARE, type Variant } from "../variants.ts";
import type { RmsNormOptions } from "./rms_norm.ts";

const ROW = new KernelFile("norm/row", rowSource);

/** Cosines and sines by which the pairs of every head turn, each [L, D/2]. */
export interface Rotation {
  /** Cosines, a row per position. */
  readonly cos: Tensor;
  /** Sines, a row per position. */
  readonly sin: Tensor;
  /** Heads are an axis of what turns, [..., L, H, D]; else they lie side by side, [..., L, H · D]. */
  readonly hasHeadAxis?: boolean;
}

interface RowNormRequest extends Omit<RmsNormOptions, "kind"> {
  readonly op: "layerNorm" | "rmsNorm";
  /** `layer`: by mean and variance; `rms`: by the root of the mean square; `l2`: by the Euclidean length. */
  readonly kind: "layer" | "rms" | "l2";
  readonly bias?: Tensor | undefined;
}

interface RowNormVariant extends Variant<{ channels: number }> {
  /** Invocations per row, and rows per workgroup. */
  layout(channels: number): { lanes: number; rows: number };
}

const ROW_NORM_VARIANTS: readonly RowNormVariant[] = [
  {
    name: "cpu",
    schedule: "cpu",
    racedOn: MESA_SOFTWARE,
    supports: () => true,
    layout: () => ({ lanes: 1, rows: 32 }),
  },
  {
    name: "gpu",
    schedule: "gpu",
    supports: (_problem, target: Target) => target.limits.maxWorkgroupInvocations >= 64,
    layout: (channels) => (channels > 512 ? { lanes: 64, rows: 1 } : { lanes: 8, rows: 8 }),
  },
];

export function rowNorm(x: Tensor, request: RowNormRequest): Tensor {
  const { op, kind, weight, bias, scale, shift, rotary, eps, gate, residual } = request;
  const { activation = "none", name = op } = request;
  const channels = x.dim(-1);
  const isInParts = weight?.rank === 2;
  const shapes = {
    weight: [weight, isInParts ? [x.dim(0), channels] : [channels]],
    bias: [bias, [channels]],
    residual: [residual, x.shape],
  } as const;
  for (const [role, [vector, shape]] of Object.entries(shapes)) {
    if (vector && !sameShape(vector.shape, shape)) {
      throw new RangeError(
        `Cannot apply ${op} to ${x}: ${role} ${vector} must have the shape ${formatShape(shape)}`,
      );
    }
  }
  if (rotary) checkRotary(x, rotary, op);
  const { graph } = x;
  const problemClass = rowClass({ rows: x.size / channels, columns: channels });
  const variant = chooseVariant(op, ROW_NORM_VARIANTS, { channels }, graph.target, problemClass);
  const width = channels % 4 === 0 ? 4 : 1;
  const layout = variant.layout(channels);
  const kernel = ROW.kernel({
    KIND: kind,
    WIDTH: width,
    LANES: layout.lanes,
    ROWS: layout.rows,
    WEIGHT: isInParts ? "parts" : weight ? "shared" : "none",
    BIAS: bias !== undefined,
    SCALE: scale !== undefined,
    SHIFT: shift !== undefined,
    ACTIVATION: activation,
    GATE: gate !== undefined,
    RESIDUAL: residual !== undefined,
    ROTARY: rotary !== undefined,
  });
  const params: Record<string, number> = {
    row_count: x.size / channels,
    words: channels / width,
    eps,
  };
  const buffers: Record<string, Tensor> = { x, y: graph.tensor(name, x.shape) };
  for (const [role, tensor] of Object.entries({ weight, bias, scale, shift, gate, residual })) {
    if (tensor) buffers[role] = tensor;
  }
  if (isInParts) params["part_rows"] = x.size / channels / x.dim(0);
  if (rotary) {
    Object.assign(buffers, { cos_table: rotary.cos, sin_table: rotary.sin });
    Object.assign(params, {
      positions: rotary.cos.dim(0),
      position_rows: rotary.hasHeadAxis ? x.dim(-2) : 1,
      head_words: rotary.cos.dim(1) / 2,
    });
  }
  for (const [role, tensor] of Object.entries({ scale, shift, gate })) {
    if (!tensor) continue;
    const { div, mod } = modulationRows(x, tensor, op, role);
    params[`${role}_div`] = div;
    params[`${role}_mod`] = mod;
  }
  graph.dispatch({
    kernel,
    buffers,
    params,
    workgroups: [Math.ceil(x.size / channels / layout.rows), 1, 1],
    flops: 8 * x.size,
  });
  return buffers["y"]!;
}

function checkRotary(x: Tensor, { cos, sin, hasHeadAxis = false }: Rotation, op: string): void {
  const size = 2 * cos.dim(-1);
  const axis = hasHeadAxis ? -3 : -2;
  const fits = cos.rank === 2 && sameShape(cos.shape, sin.shape) && size % 4 === 0 &&
    x.rank >= -axis && x.dim(axis) === cos.dim(0) &&
    (hasHeadAxis ? x.dim(-1) === size : x.dim(-1) % size === 0);
  if (!fits) {
    throw new RangeError(
      `Cannot apply ${op} to ${x} and rotate it: cos ${cos} and sin ${sin} must both be [L, D/2], D a multiple of 4, for [..., L, ${
        hasHeadAxis ? "H, D" : "H · D"
      }]`,
    );
  }
}

/**
 * Which row of a modulation belongs to which row of `x`: row r takes `floor(r / div) % mod`. A modulation has
 * the channels of `x` and, before them, sizes of which the first and the last few may be 1.
 */
function modulationRows(
  x: Tensor,
  modulation: Tensor,
  op: string,
  role: string,
): { div: number; mod: number } {
  const own = modulation.shape.slice(0, -1);
  const lead = x.rank - 1 - own.length;
  const padded = [...new Array<number>(Math.max(0, lead)).fill(1), ...own];
  const sizes = x.shape.slice(0, -1);
  const first = padded.findIndex((size) => size !== 1);
  const last = padded.findLastIndex((size) => size !== 1);
  const fits = lead >= 0 && modulation.dim(-1) === x.dim(-1) &&
    (first === -1 || sameShape(padded.slice(first, last + 1), sizes.slice(first, last + 1)));
  if (!fits) {
    throw new RangeError(
      `Cannot apply ${op} to ${x}: ${role} ${modulation} does not broadcast to it (channels in full, other sizes equal or 1)`,
    );
  }
  const product = (values: readonly number[]) => values.reduce((total, size) => total * size, 1);
  if (first === -1) return { div: 1, mod: 1 };
  return { div: product(sizes.slice(last + 1)), mod: product(padded) };
}
