import type { Tensor } from "../../graph/graph.ts";
import type { DeviceTensor } from "../../device/device_tensor.ts";
import { sameShape } from "../../shape.ts";
import combineSource from "../../shaders/combine/combine.wgsl" with { type: "text" };
import { KernelFile } from "../../shaders/kernel_file.ts";

const COMBINE = new KernelFile("combine/combine", combineSource);

/**
 * Linear combination y = Σ coefficients[first + k] · tensors[k], with coefficients that may change between runs.
 *
 * @param tensors f32 tensors of one shape
 * @param coefficients f32 [n] with `first + tensors.length <= n`
 * @returns f32, of the same shape
 */
export function combine(tensors: readonly Tensor[], coefficients: Tensor, first = 0): Tensor {
  const y = coefficients.graph.tensor("combine", tensors[0]?.shape ?? [0]);
  dispatchCombine(tensors, coefficients, first, y);
  return y;
}

/**
 * {@linkcode combine} into a tensor that outlives the program: the step of a solver.
 *
 * @param target f32, of the same shape; it may be one of the tensors
 */
export function combineTo(
  tensors: readonly Tensor[],
  coefficients: Tensor,
  first: number,
  target: DeviceTensor,
): void {
  dispatchCombine(tensors, coefficients, first, coefficients.graph.use(target));
}

function dispatchCombine(
  tensors: readonly Tensor[],
  coefficients: Tensor,
  first: number,
  y: Tensor,
): void {
  const [head] = tensors;
  if (!head) throw new TypeError("Cannot combine tensors: none is given");
  for (const tensor of tensors) {
    if (!sameShape(tensor.shape, y.shape)) {
      throw new RangeError(`Cannot combine ${tensor} into ${y}: the shapes differ`);
    }
  }
  if (first + tensors.length > coefficients.size) {
    throw new RangeError(
      `Cannot combine ${tensors.length} tensors from coefficient ${first} on: ${coefficients} holds ${coefficients.size}`,
    );
  }
  const own = tensors.findIndex(({ memory }) => memory === y.memory);
  const words = Math.ceil(y.size / 4);
  head.graph.dispatch({
    kernel: COMBINE.kernel({ COUNT: tensors.length, ...(own !== -1 && { OWN: own }) }),
    buffers: {
      ...Object.fromEntries(tensors.map((tensor, k) => [`x_${k}`, tensor])),
      c: coefficients,
      y,
    },
    params: { words, first },
    workgroups: [Math.ceil(words / 64), 1, 1],
    flops: 2 * y.size * tensors.length,
  });
}
