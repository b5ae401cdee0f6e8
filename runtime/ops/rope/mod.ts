import type { Tensor } from "../../graph/graph.ts";
import { formatShape, sameShape } from "../../shape.ts";
import { KernelFile } from "../../shaders/kernel_file.ts";
import ropeSource from "../../shaders/rope/rope.wgsl" with { type: "text" };

/** Which elements of a head make a pair: neighbours, or element i and element i + D/2. */
export type RopeStyle = "interleaved" | "half";

const ROPE = new KernelFile("rope/rope", ropeSource);

/** How to rotate. */
export interface RopeOptions {
  /** `interleaved` pairs elements 2i and 2i + 1 of a head, `half` pairs i and i + D/2. */
  readonly style: RopeStyle;
  /** Name of the result, for messages. */
  readonly name?: string;
}

/**
 * Rotary position embedding: pair i of position l turns by the angle whose cosine and sine are given,
 * (a, b) -> (a cos - b sin, b cos + a sin), the same for every head.
 *
 * @param x [B, L, H, D], D even
 * @param cos [L, D/2], or [B, L, D/2] for positions that differ over the batch
 * @param sin shape of `cos`
 * @returns f32 tensor of the shape of `x`
 * @throws {RangeError} when D is odd or a table has another shape
 */
export function rope(x: Tensor, cos: Tensor, sin: Tensor, options: RopeOptions): Tensor {
  const { style } = options;
  if (x.rank !== 4 || x.dim(-1) % 2 !== 0) {
    throw new RangeError(`Cannot rotate ${x}: the shape must be [B, L, H, D] with D even`);
  }
  const [batch, length, heads, size] = x.shape as [number, number, number, number];
  const table = [length, size / 2];
  const isBatched = cos.rank === 3;
  const expected = isBatched ? [batch, ...table] : table;
  if (!sameShape(cos.shape, expected) || !sameShape(sin.shape, expected)) {
    throw new RangeError(
      `Cannot rotate ${x}: cos ${cos} and sin ${sin} must both be ${formatShape(table)} or ${
        formatShape([batch, ...table])
      }`,
    );
  }
  const width = size % (style === "half" ? 8 : 4) === 0 ? 4 : 1;
  const per_head = style === "half" || width === 1 ? size / 2 / width : size / width;
  const count = batch * length * heads * per_head;
  const y = x.graph.tensor(options.name ?? "rope", x.shape);
  x.graph.dispatch({
    kernel: ROPE.kernel({ STYLE: style, WIDTH: width }),
    buffers: { x, cos_table: cos, sin_table: sin, y },
    params: { count, heads, per_head, period: isBatched ? batch * length : length },
    workgroups: [Math.ceil(count / 64), 1, 1],
    flops: 3 * x.size,
  });
  return y;
}
