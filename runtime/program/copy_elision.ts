/** Results that leave a program are computed where they are wanted, instead of being copied there. */
import type { Dispatch, Intermediate, Tensor } from "../graph/graph.ts";
import type { DeviceTensor } from "../device/device_tensor.ts";
import { COPY_KERNEL } from "../ops/copy/mod.ts";

/**
 * The dispatches without those copies of an intermediate to a tensor outside that change nothing: the kernels that
 * made the intermediate write the tensor itself. That holds when nothing else touches the tensor between, and neither
 * of the two is written while the intermediate is still in use.
 */
export function elideCopies(dispatches: readonly Dispatch[]): readonly Dispatch[] {
  const result: (Dispatch | undefined)[] = [...dispatches];
  dispatches.forEach((dispatch, time) => {
    const copy = result[time] === dispatch ? directCopy(dispatch) : undefined;
    if (!copy || !isFree(result, time, copy)) return;
    result[time] = undefined;
    result.forEach((other, i) => {
      if (other) result[i] = redirected(other, copy);
    });
  });
  return result.filter((dispatch) => dispatch !== undefined);
}

interface DirectCopy {
  readonly from: Intermediate;
  readonly to: DeviceTensor;
}

/** The two ends of a dispatch that copies all of an intermediate to all of a tensor outside. */
function directCopy({ kernel, tensors }: Dispatch): DirectCopy | undefined {
  if (kernel !== COPY_KERNEL) return undefined;
  const [x, y] = tensors as [Tensor, Tensor];
  if (!("id" in x.memory) || "id" in y.memory || !x.isWhole || !y.isWhole) return undefined;
  return x.byteLength === y.byteLength ? { from: x.memory, to: y.memory } : undefined;
}

function isFree(
  dispatches: readonly (Dispatch | undefined)[],
  time: number,
  { from, to }: DirectCopy,
): boolean {
  const touches = (memory: Intermediate | DeviceTensor) => (dispatch: Dispatch | undefined) =>
    dispatch?.tensors.some((tensor) => tensor.memory === memory) ?? false;
  const first = dispatches.findIndex(touches(from));
  const last = dispatches.findLastIndex(touches(from));
  const isTouched = dispatches.slice(first, time).some(touches(to));
  const isOverwritten = dispatches.slice(time + 1, last + 1).some((dispatch) =>
    dispatch?.kernel.buffers.some(({ access }, i) =>
      access === "read_write" && [from, to].includes(dispatch.tensors[i]!.memory)
    ) ?? false
  );
  return !isTouched && !isOverwritten;
}

function redirected(dispatch: Dispatch, { from, to }: DirectCopy): Dispatch {
  if (!dispatch.tensors.some(({ memory }) => memory === from)) return dispatch;
  const tensors = dispatch.tensors.map((tensor) =>
    tensor.memory === from ? tensor.shownIn(to) : tensor
  );
  return { ...dispatch, tensors };
}
