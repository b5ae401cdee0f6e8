import type { Tensor } from "../../graph.ts";
import { upsampleNearestKernel } from "../../shaders/upsample.ts";

/**
 * Repeats every pixel `factor` times in both directions. A convolution that follows can do the same in its
 * own loads; see `conv2d`.
 *
 * @param x [B, H, W, C]
 * @param factor whole number
 * @returns [B, H * factor, W * factor, C] f32
 * @throws {RangeError} when `x` is no such image or the factor is not a positive integer
 */
export function upsampleNearest(
  x: Tensor,
  factor: number,
  options: { name?: string } = {},
): Tensor {
  if (x.rank !== 4 || !Number.isInteger(factor) || factor < 1) {
    throw new RangeError(
      `Cannot upsample ${x} by ${factor}: [B, H, W, C] and a positive whole factor are needed`,
    );
  }
  const [batch, height, length, channels] = x.shape as [number, number, number, number];
  const width = channels % 4 === 0 ? 4 : 1;
  const shape = [batch, height * factor, length * factor, channels];
  const y = x.graph.tensor(options.name ?? "upsample", shape);
  const count = y.size / width;
  x.graph.dispatch({
    kernel: upsampleNearestKernel(width),
    buffers: { x, y },
    params: {
      count,
      words: channels / width,
      y_width: length * factor,
      y_height: height * factor,
      factor,
    },
    workgroups: [Math.ceil(count / 64), 1, 1],
  });
  return y;
}
