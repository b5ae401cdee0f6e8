/** Results that only products and attention read are stored as f16: half as many bytes, and kernels round them anyway. */
import { bytesPerElement, type DType } from "../dtype.ts";
import { type Dispatch, type Graph, type Intermediate, touchedBytes } from "../graph/graph.ts";
import { MOVE_RUNS_WORDS } from "../ops/layout/move_runs.ts";
import { isCounting, type Kernel } from "../shaders/kernel.ts";
import { expandInclude } from "../shaders/kernel_file.ts";
import { Tensor } from "../graph/tensor.ts";
import { allocatedBytes } from "../windows.ts";

/** A dispatch that touches a memory, and through which of its buffers. */
interface Use {
  readonly dispatch: Dispatch;
  readonly slot: number;
}

/** Elements per access that kernels can store f16 by. */
const STORED_AT_ONCE = 4;

/** Stores as f16 what kernels take as factors alone; what f16 does not hold is counted, see {@linkcode Saturation}. */
export function storeFactorsAsHalf(
  graph: Graph,
  isFactor = ({ factors = [] }: Dispatch, name: string): boolean => factors.includes(name),
): void {
  const { schedule, features, operands } = graph.target;
  if (schedule !== "gpu" || !features.f16 || operands === "f32") return;
  const uses = new Map<Intermediate, Use[]>();
  for (const dispatch of graph.dispatches) {
    dispatch.tensors.forEach(({ memory }, slot) => {
      if (!("id" in memory)) return;
      uses.getOrInsert(memory, []).push({ dispatch, slot });
    });
  }
  const moved = ({ dispatch }: Use) => dispatch.tensors[1]!.memory as Intermediate;
  const isMove = ({ dispatch }: Use) => MOVE_RUNS_WORDS.has(dispatch.kernel);
  const isRead = ({ dispatch, slot }: Use) => dispatch.kernel.buffers[slot]!.access === "read";
  const fits = (use: Use) => {
    const { dispatch, slot } = use;
    const tensor = dispatch.tensors[slot]!;
    if (tensor.dtype !== "f32" || tensor.byteOffset / 2 % graph.target.offsetAlignment !== 0) {
      return false;
    }
    if (!isRead(use)) return canStore(graph, use);
    return isMove(use) || isFactor(dispatch, dispatch.kernel.buffers[slot]!.name);
  };
  const chosen = new Set(
    [...uses].filter(([, own]) => own.every(fits) && own.some(isRead)).map(([memory]) => memory),
  );
  // What is moved is as narrow as what it becomes.
  const isLost = (memory: Intermediate) =>
    uses.get(memory)!.some((use) => isMove(use) && isRead(use) && !chosen.has(moved(use)));
  for (let lost: Intermediate | undefined; (lost = [...chosen].find(isLost));) chosen.delete(lost);
  if (chosen.size === 0) return;
  const narrowed = new Map([...chosen].map((memory) => [memory, halved(memory)]));
  graph.dispatches.forEach((dispatch, i) => {
    graph.dispatches[i] = narrowedDispatch(graph, dispatch, narrowed);
  });
}

/** Whether a kernel can store its result as f16 and count what that does not hold. */
function canStore(graph: Graph, { dispatch, slot }: Use): boolean {
  const { kernel, tensors, exchange, layer } = dispatch;
  const { name, width, access, isExact } = kernel.buffers[slot]!;
  const bindings = graph.bindingsOf(tensors) + (isCounting(kernel) ? 0 : 1);
  return access === "read_write" && width === STORED_AT_ONCE && !isExact && !exchange &&
    !new RegExp(`\\b${name}_at\\(`).test(kernel.body) && !graph.saturation.wide.has(layer) &&
    bindings <= graph.target.limits.maxStorageBuffers;
}

function halved({ id, byteLength }: Intermediate): Intermediate {
  return { id, byteLength: allocatedBytes([byteLength / 4], "f16") };
}

function narrowedDispatch(
  graph: Graph,
  dispatch: Dispatch,
  narrowed: ReadonlyMap<Intermediate, Intermediate>,
): Dispatch {
  const memories = dispatch.tensors.map(({ memory }) =>
    "id" in memory ? narrowed.get(memory) : undefined
  );
  if (memories.every((memory) => memory === undefined)) return dispatch;
  let { kernel, params, exchange } = dispatch;
  const tensors = dispatch.tensors.map((tensor, i) => {
    const memory = memories[i];
    if (!memory) return tensor;
    const { name, shape, byteOffset, madeAfter } = tensor;
    return new Tensor(graph, name, shape, "f16", memory, byteOffset / 2, madeAfter);
  });
  const stored = kernel.buffers.findIndex(({ access }, i) =>
    access === "read_write" && memories[i] !== undefined
  );
  const isCopied = MOVE_RUNS_WORDS.has(kernel) && memories[0] !== undefined;
  if (stored >= 0 && !isCopied) {
    if (!isCounting(kernel)) {
      params = [...params, graph.saturation.indexOf(dispatch.layer)];
      tensors.push(graph.counterTensor());
    }
    kernel = countingKernel(kernel, stored);
  }
  if (exchange) {
    const broughtBytes = exchange.broughtBytes.map((_, i) =>
      tensors[i]!.size * bytesPerElement(tensors[i]!.dtype as DType)
    );
    exchange = { ...exchange, broughtBytes };
  }
  const bytes = dispatch.bytes * touchedBytes(tensors) / touchedBytes(dispatch.tensors);
  return { ...dispatch, kernel, params, tensors, bytes, ...(exchange && { exchange }) };
}

const countingKernels = new WeakMap<Kernel, Map<number, Kernel>>();

/** The kernel with a result that is counted where it is stored as f16; each is made once. */
function countingKernel(kernel: Kernel, slot: number): Kernel {
  const own = countingKernels.getOrInsertComputed(kernel, () => new Map());
  return own.getOrInsertComputed(slot, () => {
    const buffers = kernel.buffers.map((buffer, i) =>
      i === slot ? { ...buffer, isCounted: true } : buffer
    );
    const name = `${kernel.name} half=${buffers[slot]!.name}`;
    if (isCounting(kernel)) return { ...kernel, name, buffers };
    return {
      ...kernel,
      name,
      body: `${kernel.body}\n${expandInclude("shared/saturation.wgsl", {})}`,
      buffers: [...buffers, { name: "saturation", access: "count", width: 1 }],
      params: { ...kernel.params, layer: "u32" },
    };
  });
}
