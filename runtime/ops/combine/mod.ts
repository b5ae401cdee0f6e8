import type { Tensor } from "../../graph.ts";
import { sameShape } from "../../shape.ts";
import { combineKernel } from "../../shaders/combine.ts";

/**
 * Linear combination y = Σ coefficients[first + k] · tensors[k], with coefficients that may change between runs:
 * the step of a solver.
 *
 * @param tensors f32 tensors of one shape
 * @param coefficients f32 [n] with `first + tensors.length <= n`
 * @returns f32 tensor of the same shape
 */
export function combine(tensors: readonly Tensor[], coefficients: Tensor, first = 0): Tensor {
  const [head] = tensors;
  if (!head) throw new TypeError("Cannot combine tensors: none is given");
  for (const tensor of tensors) {
    if (!sameShape(tensor.shape, head.shape)) {
      throw new RangeError(`Cannot combine ${tensor} with ${head}: the shapes differ`);
    }
  }
  if (first + tensors.length > coefficients.size) {
    throw new RangeError(
      `Cannot combine ${tensors.length} tensors from coefficient ${first} on: ${coefficients} holds ${coefficients.size}`,
    );
  }
  const { graph } = head;
  const y = graph.tensor("combine", head.shape);
  const words = Math.ceil(head.size / 4);
  graph.dispatch({
    kernel: combineKernel(tensors.length),
    buffers: {
      ...Object.fromEntries(tensors.map((tensor, k) => [`x${k}`, tensor])),
      c: coefficients,
      y,
    },
    params: { words, first },
    workgroups: [Math.ceil(words / 64), 1, 1],
    flops: 2 * head.size * tensors.length,
  });
  return y;
}
