/** Images read between their pixels, bilinearly: at another size, and where a flow leads. */
import type { Tensor } from "../../graph/graph.ts";
import { formatShape, sameShape } from "../../shape.ts";
import { KernelFile } from "../../shaders/kernel_file.ts";
import resizeSource from "../../shaders/sample/resize.wgsl" with { type: "text" };
import warpSource from "../../shaders/sample/warp.wgsl" with { type: "text" };

const RESIZE = new KernelFile("sample/resize", resizeSource);
const WARP = new KernelFile("sample/warp", warpSource);

/**
 * Brings images to another size, as `interpolate(mode="bilinear", align_corners=False)` of PyTorch does; smaller ones
 * are not averaged.
 *
 * @param x [B, H, W, C]; f32, f16 or bf16
 * @param height of the result, as `width` at least 1
 * @returns [B, height, width, C] f32
 * @throws {RangeError} when `x` has another rank, or a side is no positive integer
 */
export function resizeBilinear(x: Tensor, height: number, width: number): Tensor {
  const isSide = (side: number) => Number.isSafeInteger(side) && side > 0;
  if (x.rank !== 4 || !isSide(height) || !isSide(width)) {
    throw new RangeError(
      `Cannot resize ${x} to ${width}x${height}: [B, H, W, C] and positive sides are needed`,
    );
  }
  const [batch, ownHeight, ownWidth, channels] = x.shape as [number, number, number, number];
  const vector = channels % 4 === 0 ? 4 : 1;
  const y = x.graph.tensor("resize", [batch, height, width, channels]);
  const accesses = y.size / vector;
  x.graph.dispatch({
    kernel: RESIZE.kernel({ WIDTH: vector }),
    buffers: { x, y },
    params: {
      accesses,
      words: channels / vector,
      height: ownHeight,
      width: ownWidth,
      rows: height,
      columns: width,
      row_step: ownHeight / height,
      column_step: ownWidth / width,
    },
    workgroups: [Math.ceil(accesses / 64), 1, 1],
    flops: 9 * y.size,
  });
  return y;
}

/**
 * Moves pixels: y[row, column] = x[row + down, column + right], as `grid_sample(padding_mode="border",
 * align_corners=True)` of PyTorch does with a flow in pixels.
 *
 * @param x [B, H, W, C]; f32, f16 or bf16
 * @param flow [B, H, W, 2], right and down in pixels; f32, f16 or bf16
 * @returns f32, shape of `x`
 * @throws {RangeError} when the shapes do not fit together
 */
export function warp(x: Tensor, flow: Tensor): Tensor {
  const expected = [...x.shape.slice(0, 3), 2];
  if (x.rank !== 4 || !sameShape(flow.shape, expected)) {
    throw new RangeError(
      `Cannot move ${x} by ${flow}: [B, H, W, C] and a flow of ${formatShape(expected)} are needed`,
    );
  }
  const [, height, width, channels] = x.shape as [number, number, number, number];
  const vector = channels % 4 === 0 ? 4 : 1;
  const y = x.graph.tensor("warp", x.shape);
  const accesses = y.size / vector;
  x.graph.dispatch({
    kernel: WARP.kernel({ WIDTH: vector }),
    buffers: { x, flow, y },
    params: { accesses, words: channels / vector, height, width },
    workgroups: [Math.ceil(accesses / 64), 1, 1],
    flops: 9 * y.size,
  });
  return y;
}
