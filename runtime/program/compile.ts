/** Compiling the kernels of programs before they run, on several threads where that helps. */
import { type KernelCode, Turns } from "../device/compile_helpers.ts";
import type { Device } from "../device/device.ts";
import type { Dispatch, Graph } from "../graph/graph.ts";
import { type RunControl, throwIfCancelled } from "../run_control.ts";
import { assembleKernel } from "../shaders/assemble.ts";
import type { Target } from "../target.ts";
import { cutIntoPieces } from "../windows.ts";

/** Bytes of a binding that is not used: of the largest offset alignment, and more than the parameters of a kernel. */
const SPARE_BYTES = 1024;
/** More bindings than a kernel writes to. */
const MOST_WRITTEN = 64;
/** Milliseconds that a driver does not need for a kernel that it has compiled before. */
const COMPILED_MS = { software: 20, gpu: 100 };
/** Kernels below which other threads would begin too late, and milliseconds that the rest would take. */
const FEW = 4;
const WORTH_MS = 1000;
/** How often progress is looked at while others compile, in milliseconds. */
const POLL_MS = 50;

/** The WGSL of a dispatch, specialised to the formats and sizes of its tensors, and what it is bound to. */
export function kernelCode({ kernel, tensors }: Dispatch, target: Target): KernelCode {
  const cuts = tensors.map(({ memory }) => cutIntoPieces(memory.byteLength, target.limits));
  const buffers = tensors.map(({ dtype }, i) => ({
    dtype,
    pieces: cuts[i]!.length,
    pieceBytes: cuts[i]![0]!.size,
  }));
  const bindings = cuts.flatMap((pieces, i): GPUBufferBindingLayout[] => {
    const isRead = kernel.buffers[i]!.access === "read";
    return pieces.map(() => ({ type: isRead ? "read-only-storage" : "storage" }));
  });
  return {
    label: kernel.name,
    wgsl: assembleKernel(kernel, buffers, target.dialect),
    bindings: [{ type: "uniform", hasDynamicOffset: true }, ...bindings],
  };
}

/** The kernels of graphs, each once. */
export function kernelCodes(graphs: Iterable<Graph>, target: Target): KernelCode[] {
  const sources = new Map<string, KernelCode>();
  for (const { dispatches } of graphs) {
    for (const dispatch of dispatches) {
      if (dispatch.exchange) continue;
      const source = kernelCode(dispatch, target);
      sources.set(source.wgsl, source);
    }
  }
  return [...sources.values()];
}

/**
 * Compiles the kernels that a device lacks: one that shows soon whether the driver knows them, then the longest first. Where
 * the driver takes its time, which it does when it meets a kernel for the first time, other threads compile too.
 *
 * @param meanwhile done once: while others compile, or at the end
 * @throws {GpuValidationError} when the driver refuses a kernel
 * @throws {DOMException} `AbortError` when cancelled
 */
export async function compileKernels(
  device: Device,
  kernels: readonly KernelCode[],
  control: RunControl = {},
  meanwhile: () => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const missing = inOrder(kernels.filter(({ wgsl }) => !device.hasPipeline(wgsl)));
  const known = COMPILED_MS[device.adapter.isSoftware ? "software" : "gpu"];
  const turns = new Turns();
  const report = () => control.onKernels?.(turns.finished, missing.length);
  let helping: Promise<void> | undefined;
  try {
    await compileInTurn(device, missing, turns, async (milliseconds, left) => {
      throwIfCancelled(control);
      report();
      if (helping || milliseconds < known || left < FEW) return;
      const [own, ...rest] = missing.slice(-left - 1).map(({ wgsl }) => wgsl.length);
      if (milliseconds * rest.reduce((sum, length) => sum + length, 0) < WORTH_MS * own!) return;
      helping = device.helpers?.compile(missing, turns);
      if (helping) await meanwhile();
    });
    if (!helping) return await meanwhile();
    await watch(helping, () => (throwIfCancelled(control), report()));
    // What others compiled, the driver finds; but the text of a kernel takes its time, too, which the first request is spared.
    const others = missing.filter(({ wgsl }) => !device.hasPipeline(wgsl));
    await compileInTurn(
      device,
      others,
      new Turns(),
      () => Promise.resolve(throwIfCancelled(control)),
    );
  } finally {
    turns.stop();
    await helping;
  }
}

/** First one of middle length, then the longest, so that no thread is left with a long one. */
function inOrder(kernels: readonly KernelCode[]): KernelCode[] {
  const sorted = kernels.toSorted((a, b) => b.wgsl.length - a.wgsl.length);
  const middle = sorted.splice(sorted.length >> 1, 1);
  return [...middle, ...sorted];
}

/**
 * Compiles the kernels of a list whose turn it is, until none is left.
 *
 * @param onCompiled told after each how long the driver took for it, and how many kernels nobody has begun
 * @throws {GpuValidationError} when the driver refuses a kernel
 */
export async function compileInTurn(
  device: Device,
  kernels: readonly KernelCode[],
  turns: Turns,
  onCompiled?: (milliseconds: number, left: number) => Promise<void>,
): Promise<void> {
  const { adapter, gpuDevice } = device;
  const spare = new SpareBuffers(gpuDevice);
  const waits: Promise<void>[] = [];
  try {
    for (let i = turns.take(); i < kernels.length; i = turns.take()) {
      const code = kernels[i]!;
      let begun = performance.now();
      const pipeline = await device.guarded(() => device.pipeline(code));
      if (adapter.isSoftware) {
        // Software adapters put it off until the kernel is dispatched.
        begun = performance.now();
        device.submit([encodeNothing(gpuDevice, pipeline, spare.bind(pipeline, code))]);
        // Deno's wait blocks until then; its sleep behind that need not be waited for.
        waits.push(device.wait());
        waits.at(-1)!.catch(() => {});
      }
      const milliseconds = performance.now() - begun;
      turns.finish();
      await onCompiled?.(milliseconds, kernels.length - i - 1);
    }
    await Promise.all(waits);
  } finally {
    await Promise.allSettled(waits);
    spare.destroy();
  }
}

function encodeNothing(
  device: GPUDevice,
  pipeline: GPUComputePipeline,
  group: GPUBindGroup,
): GPUCommandBuffer {
  const encoder = device.createCommandEncoder({ label: "compile" });
  const pass = encoder.beginComputePass({ label: "compile" });
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, group, [0]);
  pass.dispatchWorkgroups(0);
  pass.end();
  return encoder.finish();
}

/** What kernels are bound to that are dispatched without workgroups. */
class SpareBuffers {
  readonly #device: GPUDevice;
  readonly #read: GPUBuffer;
  readonly #written: GPUBuffer;

  constructor(device: GPUDevice) {
    this.#device = device;
    const usage = 0x80 | 0x40; // STORAGE | UNIFORM
    this.#read = device.createBuffer({ label: "spare", size: SPARE_BYTES, usage });
    const size = SPARE_BYTES * MOST_WRITTEN;
    this.#written = device.createBuffer({ label: "spare", size, usage });
  }

  /** Binds each tensor that is written to a place of its own. */
  bind(pipeline: GPUComputePipeline, { label, bindings }: KernelCode): GPUBindGroup {
    let written = 0;
    const entries = bindings.map(({ type }, binding): GPUBindGroupEntry => {
      const own = type === "storage"
        ? { buffer: this.#written, offset: SPARE_BYTES * written++ }
        : { buffer: this.#read };
      return { binding, resource: { ...own, size: SPARE_BYTES } };
    });
    const layout = pipeline.getBindGroupLayout(0);
    return this.#device.createBindGroup({ label, layout, entries });
  }

  destroy(): void {
    this.#read.destroy();
    this.#written.destroy();
  }
}

async function watch(work: Promise<void>, look: () => void): Promise<void> {
  let isDone = false;
  work.then(() => isDone = true);
  while (!isDone) {
    look();
    await Promise.race([work, new Promise((resolve) => setTimeout(resolve, POLL_MS))]);
  }
  look();
}
