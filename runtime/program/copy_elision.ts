/** Results that leave a program, or are joined to others, are computed where they are wanted, instead of being copied there. */
import type { DeviceTensor } from "../device/device_tensor.ts";
import {
  type Dispatch,
  type Graph,
  type Intermediate,
  type Tensor,
  touchedBytes,
} from "../graph/graph.ts";
import { COPY_KERNEL } from "../ops/copy/mod.ts";
import { MOVE_RUNS_WORDS, type Runs } from "../ops/layout/move_runs.ts";
import type { Kernel, SlotPlace } from "../shaders/kernel.ts";

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

/**
 * Takes copies of whole intermediates into a part of another one out of a graph, where the kernel that made the
 * intermediate can write that part itself: neighbouring elements where a binding can begin, or on GPUs columns of rows.
 */
export function elideJoins(graph: Graph): void {
  const dispatches: (Dispatch | undefined)[] = [...graph.dispatches];
  dispatches.forEach((dispatch, time) => {
    const join = dispatch && joinOf(dispatch);
    if (!join) return;
    const maker = makerOf(dispatches, time, join);
    const moved = maker === undefined ? undefined : writingThere(graph, dispatches[maker]!, join);
    if (!moved) return;
    dispatches[maker!] = moved;
    dispatches[time] = undefined;
  });
  graph.dispatches.splice(0, Infinity, ...dispatches.filter((dispatch) => dispatch !== undefined));
}

/** A copy of all of an intermediate to a part of another. */
interface Join {
  readonly from: Intermediate;
  readonly x: Tensor;
  /** All that it becomes a part of. */
  readonly y: Tensor;
  readonly runs: Runs;
}

function joinOf({ kernel, tensors, params }: Dispatch): Join | undefined {
  const width = MOVE_RUNS_WORDS.get(kernel);
  if (width === undefined) return undefined;
  const [x, y] = tensors as [Tensor, Tensor];
  const [count, run, xStride, xStart, yStride, yStart] = params.map((words) => words * width) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const isDense = xStart === 0 && xStride === run && count === x.size && x.isWhole;
  const isInside = "id" in x.memory && "id" in y.memory && y.isWhole && x.dtype === y.dtype;
  if (!isDense || !isInside || x.memory === y.memory) return undefined;
  const runs = { count: count / run, run, xStride, xStart, yStride, yStart };
  return { from: x.memory as Intermediate, x, y, runs };
}

/** Which dispatch makes what is copied, where nothing stands against its writing to the other place at once. */
function makerOf(
  dispatches: readonly (Dispatch | undefined)[],
  time: number,
  { from, y }: Join,
): number | undefined {
  let maker: number | undefined;
  for (const [i, dispatch] of dispatches.entries()) {
    for (const [slot, { memory }] of (i === time ? [] : dispatch?.tensors ?? []).entries()) {
      const { access } = dispatch!.kernel.buffers[slot]!;
      if (memory === y.memory && access === "read" && i < time) return undefined;
      if (memory !== from) continue;
      if (access === "read" || maker !== undefined || i > time) return undefined;
      maker = i;
    }
  }
  if (maker === undefined) return undefined;
  const touches = dispatches[maker]!.tensors.some(({ memory }) => memory === y.memory);
  return touches ? undefined : maker;
}

/** The dispatch with its result in the other place; undefined where its kernel cannot write there. */
function writingThere(
  graph: Graph,
  dispatch: Dispatch,
  { from, x, y, runs }: Join,
): Dispatch | undefined {
  const slot = dispatch.tensors.findIndex(({ memory }) => memory === from);
  const { name, access, width } = dispatch.kernel.buffers[slot]!;
  const own = dispatch.tensors[slot]!;
  const isRead = new RegExp(`\\b${name}_at\\(`).test(dispatch.kernel.body);
  if (access !== "read_write" || !own.isWhole || dispatch.exchange || isRead) return undefined;
  const { count, run, yStride, yStart } = runs;
  const range = count === 1 ? y.range(yStart, x.shape) : undefined;
  // Rows are as long as the model has them; others would make kernels for every number of tokens. A software adapter takes
  // longer to compile one more kernel than to copy.
  const isColumns = graph.target.schedule === "gpu" && count > 1 && run === x.dim(-1) &&
    [run, yStride, yStart].every((size) => size % width === 0);
  if (!range && !isColumns) return undefined;
  const tensors = dispatch.tensors.with(slot, range ?? y);
  if (graph.bindingsOf(tensors) > graph.target.limits.maxStorageBuffers) return undefined;
  const kernel = range ? dispatch.kernel : placed(dispatch.kernel, slot, {
    run: run / width,
    step: yStride / width,
    first: yStart / width,
  });
  const unused = range ? 0 : y.byteLength - own.byteLength;
  return { ...dispatch, kernel, tensors, bytes: touchedBytes(tensors) - unused };
}

const placedKernels = new WeakMap<Kernel, Map<string, Kernel>>();

/** The kernel with a result that is columns of rows; each is made once. */
function placed(kernel: Kernel, slot: number, place: SlotPlace): Kernel {
  const { name } = kernel.buffers[slot]!;
  const { run, step, first } = place;
  const own = placedKernels.getOrInsertComputed(kernel, () => new Map());
  return own.getOrInsertComputed([slot, run, step, first].join(), () => ({
    ...kernel,
    name: `${kernel.name} ${name}=${first}+${run}/${step}`,
    buffers: kernel.buffers.map((buffer, i) => i === slot ? { ...buffer, place } : buffer),
  }));
}
