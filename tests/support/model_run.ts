/** A traced model on a device, for tests. */
import {
  copyTo,
  type Device,
  type DeviceOptions,
  DeviceTensor,
  type DType,
  type ExecutableSet,
  Graph,
  instantiate,
  type MemoryPlan,
  openDevice,
  planMemory,
  runSequence,
  type Target,
  type Tensor,
  type TensorSource,
  Weights,
} from "../../runtime/mod.ts";
import { finishGraph } from "../../runtime/program/program.ts";
import { defaultBackend, gpuOf } from "../../runtime/device/backends/backend.ts";
import { shareDevices } from "./shared_gpu.ts";
import type { Golden, GoldenCall, Values } from "./golden.ts";

/** Of the kernels that take a problem, the one that a software driver compiles soonest; any class of problems. */
const SHORT_KERNELS: Target["choices"] = {
  linear: anyClass("broadcast24"),
  matmul: anyClass("broadcast24"),
  attention: anyClass("broadcast8"),
  conv2d: anyClass("broadcast8"),
  causalConv3d: anyClass("broadcast8"),
};

function anyClass(variant: string): Target["choices"][string] {
  return new Proxy({}, { get: () => [{ variant, microseconds: 1 }] });
}

/**
 * Opens a device that shares with the others of its file what was compiled.
 *
 * Factors stay f32 unless the options say otherwise: the gates of goldens are those of f32. `DENOISE_SCHEDULE=gpu` makes a
 * software adapter run the kernels that GPUs run.
 *
 * @param kernels which ones run where several could: `short` ones, which a software driver compiles in a fraction of the
 * time, or the `usual` ones of the adapter, as with `DENOISE_SLOW`
 */
export async function openTestDevice(
  options: DeviceOptions = {},
  kernels: "short" | "usual" = "short",
): Promise<Device> {
  const schedule = Deno.env.get("DENOISE_SCHEDULE");
  if (schedule !== undefined && schedule !== "cpu" && schedule !== "gpu") {
    throw new TypeError(`Cannot use DENOISE_SCHEDULE=${schedule}: it is cpu or gpu`);
  }
  const backend = defaultBackend();
  const device = await openDevice({
    ...backend !== "auto" && { gpu: shareDevices(backend, gpuOf(backend)) },
    ...schedule && { schedule },
    operands: "f32",
    ...options,
  });
  if (kernels === "short" && device.adapter.isSoftware && !Deno.env.has("DENOISE_SLOW")) {
    device.applyTuning({ choices: SHORT_KERNELS });
  }
  return device;
}

/** An input of a traced model. */
export interface InputValues extends Values {
  /** `f32` by default. */
  readonly dtype?: DType;
}

/** A traced model on a device, with its inputs and outputs. */
export class ModelRun implements Disposable {
  /** What the program takes. */
  readonly plan: MemoryPlan;
  readonly #programs: ExecutableSet;
  readonly #inputs: ReadonlyMap<string, DeviceTensor>;
  readonly #outputs: ReadonlyMap<string, DeviceTensor>;

  private constructor(
    plan: MemoryPlan,
    programs: ExecutableSet,
    inputs: ReadonlyMap<string, DeviceTensor>,
    outputs: ReadonlyMap<string, DeviceTensor>,
  ) {
    this.plan = plan;
    this.#programs = programs;
    this.#inputs = inputs;
    this.#outputs = outputs;
  }

  /**
   * Traces one program, plans it, uploads the weights that it declared, allocates, and writes the inputs.
   *
   * @param trace builds the model; its results become outputs of the same names
   */
  static async prepare(
    device: Device,
    weights: Weights | undefined,
    inputs: Readonly<Record<string, InputValues>>,
    trace: (
      graph: Graph,
      inputs: Readonly<Record<string, Tensor>>,
    ) => Readonly<Record<string, Tensor>>,
  ): Promise<ModelRun> {
    const graph = new Graph("model", device.target);
    const given = new Map<string, DeviceTensor>();
    const tensors: Record<string, Tensor> = {};
    for (const [name, { shape, dtype }] of Object.entries(inputs)) {
      const tensor = new DeviceTensor(name, shape, dtype ?? "f32");
      given.set(name, tensor);
      tensors[name] = graph.use(tensor);
    }
    const results = new Map<string, DeviceTensor>();
    for (const [name, tensor] of Object.entries(trace(graph, tensors))) {
      const result = new DeviceTensor(name, tensor.shape, tensor.dtype);
      results.set(name, result);
      copyTo(tensor, result);
    }
    finishGraph(graph);
    const plan = planMemory({ model: graph });
    await weights?.upload(device);
    for (const tensor of [...given.values(), ...results.values()]) tensor.allocate(device);
    const run = new ModelRun(plan, await instantiate(plan, device), given, results);
    for (const [name, { data }] of Object.entries(inputs)) run.write(name, data);
    return run;
  }

  /** Sets an input. */
  write(name: string, values: ArrayLike<number>): void {
    this.#inputs.get(name)!.write(values);
  }

  /** Runs the program once and waits. */
  async run(): Promise<void> {
    const program = this.#programs.get("model");
    await runSequence(program.device, [{ programs: [program] }]);
  }

  /** Reads an output. */
  async read(name: string): Promise<Values> {
    const tensor = this.#outputs.get(name)!;
    return { shape: tensor.shape, data: await tensor.read() };
  }

  /** Frees everything but the weights. */
  [Symbol.dispose](): void {
    this.#programs.destroy();
    for (const tensor of [...this.#inputs.values(), ...this.#outputs.values()]) {
      tensor.destroy();
    }
  }
}

/**
 * Checks calls of a golden, each in a step of its own.
 *
 * @param calls all of them by default
 * @returns names of the tensors that no call has used
 */
export async function checkCalls(
  t: Deno.TestContext,
  golden: Golden,
  source: TensorSource,
  check: (device: Device, weights: Weights, call: GoldenCall) => Promise<void>,
  calls: readonly GoldenCall[] = golden.calls,
  options: DeviceOptions = {},
): Promise<readonly string[]> {
  const device = await openTestDevice(options);
  const weights = new Weights(source);
  try {
    for (const call of calls) await t.step(call.name, () => check(device, weights, call));
    return weights.unused;
  } finally {
    weights.destroy();
    device.destroy();
  }
}
