import type { Tensor } from "../../graph/graph.ts";
import type { DeviceTensor } from "../../device/device_tensor.ts";
import type { Kernel } from "../../shaders/kernel.ts";
import { formatShape } from "../../shape.ts";
import copySource from "../../shaders/copy/copy.wgsl" with { type: "text" };
import { KernelFile } from "../../shaders/kernel_file.ts";

/** y = x, four elements per invocation. */
export const COPY_KERNEL: Kernel = new KernelFile("copy/copy", copySource).kernel();

/**
 * Writes a tensor's elements to a tensor that outlives the program: how results leave it and how state is kept
 * from one run to the next.
 *
 * @throws {TypeError} when the number of elements or the dtype differs
 */
export function copyTo(x: Tensor, target: DeviceTensor): void {
  const y = x.graph.use(target);
  if (x.size !== y.size || x.dtype !== y.dtype) {
    throw new TypeError(`Cannot copy ${x} to ${y}: ${formatShape(y.shape)} ${y.dtype} is needed`);
  }
  const words = Math.ceil(x.byteLength / (x.dtype === "f16" ? 8 : 16));
  x.graph.dispatch({
    kernel: COPY_KERNEL,
    buffers: { x, y },
    params: { words },
    workgroups: [Math.ceil(words / 64), 1, 1],
  });
}
