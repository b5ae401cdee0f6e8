/** Replay: a program holds its pipelines, bind groups and parameters, so running it again creates and decides nothing. */
import { compileKernels, kernelCode, kernelCodes } from "./compile.ts";
import type { Device } from "../device/device.ts";
import type { Dispatch, Exchange, Tensor } from "../graph/graph.ts";
import type { PreparedExchange } from "./run_exchange.ts";
import {
  type MemoryPlan,
  PARAM_STRIDE,
  paramBlocks,
  paramBytesOf,
  type PlannedDispatch,
  type PlannedProgram,
  submitCost,
} from "./plan.ts";
import { createWindows, type DeviceTensor } from "../device/device_tensor.ts";
import { type Segment, Slab } from "./segments.ts";
import { type RunControl, throwIfCancelled } from "../run_control.ts";
import type { BufferWindow } from "../windows.ts";
import { roundUp } from "../shape.ts";
import { RESERVED_PARAMS } from "../shaders/assemble.ts";
import type { ParamType } from "../shaders/kernel.ts";
import type { Target } from "../target.ts";

/** A dispatch ready to be encoded. */
export interface PreparedDispatch {
  /** Grid and origin. */
  readonly planned: PlannedDispatch;
  /** The compiled kernel. */
  readonly pipeline: GPUComputePipeline;
  /** Bindings of the kernel's tensors, and of the program's parameters. */
  readonly bindGroup: GPUBindGroup;
  /** Where its own parameters begin, in bytes: the dynamic offset of the bind group. */
  readonly paramOffset: number;
}

/** A computation that can be run any number of times. */
export class Executable {
  /** Name of the program in its plan. */
  readonly name: string;
  /** Device that the program runs on. */
  readonly device: Device;
  /** Dispatches, grouped by submit; none where there is an exchange instead. */
  readonly submits: readonly (readonly PreparedDispatch[])[];
  /** Exchanges by the index of their submit. */
  readonly exchanges: ReadonlyMap<number, PreparedExchange>;
  /** Part of a submit's budget that each of them takes. */
  readonly costs: readonly number[];
  /** When the pass of each submit begins and ends, where somebody measures it. */
  timestamps?: ((index: number) => GPUComputePassTimestampWrites | undefined) | undefined;
  readonly #slabs: readonly Slab[];

  /** Use {@linkcode instantiate}. */
  constructor(
    name: string,
    device: Device,
    submits: readonly (readonly PreparedDispatch[])[],
    target: Target,
    slabs: readonly Slab[],
    exchanges: ReadonlyMap<number, PreparedExchange> = new Map(),
  ) {
    this.name = name;
    this.device = device;
    this.submits = submits;
    this.exchanges = exchanges;
    this.#slabs = slabs;
    this.costs = submits.map((dispatches) =>
      dispatches.reduce((sum, { planned }) => sum + submitCost(planned, target), 0)
    );
  }

  /** Encodes submit `index` into one command buffer with one pass, several times where it is measured. */
  encode(index: number, times = 1): GPUCommandBuffer {
    const timestampWrites = this.timestamps?.(index);
    const encoder = this.device.gpuDevice.createCommandEncoder({ label: this.name });
    const pass = encoder.beginComputePass({
      label: this.name,
      ...(timestampWrites && { timestampWrites }),
    });
    let current: GPUComputePipeline | undefined;
    for (let time = 0; time < times; time++) {
      for (const { pipeline, bindGroup, paramOffset, planned } of this.submits[index]!) {
        if (pipeline !== current) pass.setPipeline(pipeline);
        current = pipeline;
        pass.setBindGroup(0, bindGroup, [paramOffset]);
        pass.dispatchWorkgroups(...planned.workgroups);
      }
    }
    pass.end();
    return encoder.finish();
  }

  /** The segment of streamed weights that begins with submit `index`. */
  segmentFrom(index: number): Segment | undefined {
    const segmentOf = (i: number) => this.submits[i]?.[0]?.planned.segment;
    return segmentOf(index) === segmentOf(index - 1) ? undefined : segmentOf(index);
  }

  /**
   * Queues the writes of the streamed weights that come into use with submit `index`: after all earlier submits.
   *
   * @throws {Error} when they cannot be read any more
   */
  loadWeights(index: number): void {
    const segment = this.segmentFrom(index);
    if (segment) this.#slabs[segment.slab]!.load(segment);
  }

  /**
   * Submits the whole program without waiting; `runSequence` waits, and can be cancelled.
   *
   * @throws {TypeError} when it has exchanges, which must be waited for
   */
  submit(): void {
    if (this.exchanges.size > 0) {
      throw new TypeError(`Cannot submit program "${this.name}": it has exchanges; run it`);
    }
    for (let i = 0; i < this.submits.length; i++) {
      this.loadWeights(i);
      this.device.submit([this.encode(i)]);
    }
  }
}

interface Workspace {
  readonly slots: readonly (readonly BufferWindow[])[];
  readonly slabs: readonly Slab[];
}

/** Programs of one plan with the memory they share. */
export class ExecutableSet {
  /** Memory plan that the program was made from. */
  readonly plan: MemoryPlan;
  readonly #programs: ReadonlyMap<string, Executable>;
  #free: (() => void) | undefined;

  /** Use {@linkcode instantiate}. */
  constructor(plan: MemoryPlan, programs: ReadonlyMap<string, Executable>, free: () => void) {
    this.plan = plan;
    this.#programs = programs;
    this.#free = free;
  }

  /** The program planned under `name`. */
  get(name: string): Executable {
    const program = this.#programs.get(name);
    if (!program) {
      throw new RangeError(
        `Cannot find program "${name}": the set has ${[...this.#programs.keys()].join(", ")}`,
      );
    }
    return program;
  }

  /** Frees the slots, parameters and constants; device tensors belong to their owners. Further calls do nothing. */
  destroy(): void {
    this.#free?.();
    this.#free = undefined;
  }

  /** Calls {@linkcode ExecutableSet.destroy}. */
  [Symbol.dispose](): void {
    this.destroy();
  }
}

/**
 * Allocates a plan's workspace, compiles its pipelines and builds its bind groups. When it fails, nothing stays
 * allocated. Device tensors must have been allocated by their owners; a plan has one set of programs at a time.
 *
 * @throws {OutOfMemoryError} when the budget does not hold the workspace
 * @throws {DOMException} `AbortError` when cancelled; what was compiled until then is not compiled again
 */
export async function instantiate(
  plan: MemoryPlan,
  device: Device,
  control: RunControl = {},
): Promise<ExecutableSet> {
  const buffers: GPUBuffer[] = [];
  const slabs: Slab[] = [];
  const constants: DeviceTensor[] = [];
  const free = () => {
    for (const buffer of buffers) device.destroyBuffer(buffer);
    for (const slab of slabs) slab.destroy();
    for (const constant of constants) constant.destroy();
  };
  try {
    if (device.helpers) {
      const graphs = Object.values(plan.programs).map(({ graph }) => graph);
      await compileKernels(device, kernelCodes(graphs, device.target), control);
    }
    return await device.guarded(() => {
      const slots = plan.slotBytes.map((bytes, i) => {
        const windows = createWindows(device, `slot ${i}`, bytes);
        buffers.push(...new Set(windows.map((window) => window.buffer)));
        return windows;
      });
      plan.slabBytes.forEach((bytes, i) => slabs.push(new Slab(device, `slab ${i}`, bytes)));
      const programs = new Map<string, Executable>();
      for (const [name, planned] of Object.entries(plan.programs)) {
        if (planned.paramBytes === 0) {
          throw new RangeError(`Cannot instantiate program "${name}": it has no dispatches`);
        }
        const params = device.createBuffer(`${name} params`, planned.paramBytes, PARAM_USAGE);
        buffers.push(params);
        for (const { tensor, values } of planned.graph.constants) {
          constants.push(tensor.allocate(device));
          tensor.write(typeof values === "function" ? values() : values);
        }
        programs.set(
          name,
          prepareProgram(name, planned, { slots, slabs }, params, device, control),
        );
      }
      return new ExecutableSet(plan, programs, free);
    });
  } catch (error) {
    free();
    throw error;
  }
}

const PARAM_USAGE = 0x40 | 0x08; // UNIFORM | COPY_DST

/** A dispatch's kernel, whichever part of its grid runs. */
type BoundKernel = Pick<PreparedDispatch, "pipeline" | "bindGroup">;

function bindKernel(
  part: PlannedDispatch,
  planned: PlannedProgram,
  workspace: Workspace,
  params: GPUBuffer,
  device: Device,
): BoundKernel {
  const { dispatch } = part;
  const size = roundUp(paramBytesOf(dispatch), 16);
  const entries: GPUBindGroupEntry[] = [{ binding: 0, resource: { buffer: params, size } }];
  for (const tensor of dispatch.tensors) {
    for (const window of windowsOf(tensor, planned, part, workspace)) {
      entries.push({ binding: entries.length, resource: window });
    }
  }
  const pipeline = device.pipeline(kernelCode(dispatch, device.target));
  const layout = pipeline.getBindGroupLayout(0);
  return { pipeline, bindGroup: device.bindGroup({ label: dispatch.label, layout, entries }) };
}

function prepareProgram(
  name: string,
  planned: PlannedProgram,
  workspace: Workspace,
  params: GPUBuffer,
  device: Device,
  control: RunControl,
): Executable {
  const bytes = new DataView(new ArrayBuffer(planned.paramBytes));
  let block = 0;
  // A dispatch may be cut into thousands of parts, which differ in their parameters only.
  const bound = new Map<Dispatch, BoundKernel>();
  const exchanges = new Map<number, PreparedExchange>();
  const submits = planned.submits.map((dispatches, index) =>
    dispatches.flatMap((part): PreparedDispatch[] => {
      throwIfCancelled(control);
      const { dispatch } = part;
      if (dispatch.exchange) {
        exchanges.set(index, prepareExchange(part, dispatch.exchange, planned, workspace));
        return [];
      }
      const paramOffset = block * PARAM_STRIDE;
      block += paramBlocks(dispatch);
      writeParams(bytes, paramOffset, part);
      let kernel = bound.get(dispatch);
      if (!kernel) {
        kernel = bindKernel(part, planned, workspace, params, device);
        bound.set(dispatch, kernel);
      }
      return [{ planned: part, ...kernel, paramOffset }];
    })
  );
  device.write(params, 0, new Uint8Array(bytes.buffer));
  return new Executable(name, device, submits, planned.graph.target, workspace.slabs, exchanges);
}

function prepareExchange(
  part: PlannedDispatch,
  exchange: Exchange,
  planned: PlannedProgram,
  workspace: Workspace,
): PreparedExchange {
  const { label, tensors } = part.dispatch;
  const windows = tensors.map((tensor) => windowsOf(tensor, planned, part, workspace));
  const count = exchange.broughtBytes.length;
  return { ...exchange, label, brought: windows.slice(0, count), results: windows.slice(count) };
}

function windowsOf(
  tensor: Tensor,
  planned: PlannedProgram,
  { segment }: PlannedDispatch,
  { slots, slabs }: Workspace,
): readonly BufferWindow[] {
  const { memory, byteOffset, byteLength } = tensor;
  const own = "id" in memory
    ? slots[planned.slots.get(memory.id)!]!
    : segment?.places.has(memory)
    ? slabs[segment.slab]!.windows(segment, memory)
    : memory.windows;
  // Only what lies in one piece is shown in part.
  if (!tensor.isWhole) {
    const [{ buffer, offset }] = own as [BufferWindow];
    return [{ buffer, offset: offset + byteOffset, size: byteLength }];
  }
  let left = memory.byteLength;
  const windows: BufferWindow[] = [];
  for (const window of own) {
    if (left <= 0) break;
    windows.push({ ...window, size: Math.min(window.size, left) });
    left -= window.size;
  }
  return windows;
}

function writeParams(bytes: DataView, offset: number, { dispatch, base }: PlannedDispatch): void {
  base.forEach((value, i) => bytes.setUint32(offset + i * 4, value, true));
  const types: ParamType[] = Object.values(dispatch.kernel.params);
  types.forEach((type, i) => {
    const at = offset + (i + RESERVED_PARAMS) * 4;
    const value = dispatch.params[i]!;
    if (type === "f32") bytes.setFloat32(at, value, true);
    else if (type === "i32") bytes.setInt32(at, value, true);
    else bytes.setUint32(at, value, true);
  });
}
