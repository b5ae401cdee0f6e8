import type { Tensor } from "../../graph.ts";
import type { Resident } from "../../resident.ts";
import { sameShape } from "../../shape.ts";
import { combineKernel } from "../../shaders/combine.ts";

/**
 * Linear combination target = Σ coefficients[first + k] · tensors[k], with coefficients that may change between runs:
 * the step of a solver.
 *
 * @param tensors f32 tensors of one shape; the target may be one of them
 * @param coefficients f32 [n] with `first + tensors.length <= n`
 * @param target f32, of the same shape; it outlives the program
 */
export function combineTo(
  tensors: readonly Tensor[],
  coefficients: Tensor,
  first: number,
  target: Resident,
): void {
  const [head] = tensors;
  if (!head) throw new TypeError("Cannot combine tensors: none is given");
  const { graph } = head;
  const y = graph.use(target);
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
  const own = tensors.findIndex(({ memory }) => memory === target);
  const words = Math.ceil(y.size / 4);
  graph.dispatch({
    kernel: combineKernel(tensors.length, own === -1 ? undefined : own),
    buffers: {
      ...Object.fromEntries(tensors.map((tensor, k) => [`x${k}`, tensor])),
      c: coefficients,
      y,
    },
    params: { words, first },
    workgroups: [Math.ceil(words / 64), 1, 1],
    flops: 2 * y.size * tensors.length,
  });
}
