/** An op at one size, ready to be timed: with the kernels that the adapter gets, or with any others that take it. */

import {
  copyTo,
  type Device,
  DeviceTensor,
  type Executable,
  type ExecutableSet,
  Graph,
  instantiate,
  planMemory,
  type Target,
} from "../runtime/mod.ts";
import { OP_SUITES } from "../runtime/ops/registry.ts";
import { benchOf, type OpCase } from "./op_cases.ts";
import { fillRandom } from "./random_bytes.ts";

/** Magnitude of every element: sums of products then have about that of their factors. */
const MAGNITUDE = 0.7;

/** Kernels of an op that compute a result when they run. */
export interface OpRun {
  /** Names of the kernels of one call, in order. */
  readonly kernels: readonly string[];
  /** One call of the op. */
  readonly program: Executable;
  /** Frees what it holds. */
  destroy(): void;
}

/** Names of the variants of an op; one empty name where there is a single way. */
export function variantsOf(op: string): readonly string[] {
  const { op: name } = benchOf(op);
  const named = OP_SUITES.filter((suite) => suite.op === name).flatMap(({ variants }) => variants);
  return named.length > 0 ? [...new Set(named)] : [""];
}

/** Inputs and result of an op at one size, which any of its variants may compute. */
export class LoadedOp {
  readonly #device: Device;
  readonly #op: OpCase;
  readonly #inputs: readonly DeviceTensor[];
  readonly #output: DeviceTensor;

  /** Brings random inputs to the device. */
  constructor(device: Device, op: OpCase) {
    this.#device = device;
    this.#op = op;
    this.#inputs = op.inputs.map((shape, i) =>
      new DeviceTensor(`input ${i}`, shape, i === 1 ? op.weights : "f32")
    );
    this.#output = new DeviceTensor("output", op.output);
    try {
      this.#output.allocate(device);
      for (const tensor of this.#inputs) {
        tensor.allocate(device);
        fillRandom(tensor, MAGNITUDE);
      }
      device.flush();
    } catch (error) {
      this.destroy();
      throw error;
    }
  }

  /**
   * Compiles the op.
   *
   * @param variant forces one of {@linkcode variantsOf}; the adapter's own choice when left out
   */
  async prepare(variant?: string): Promise<OpRun> {
    const { op: name, bench } = benchOf(this.#op.op);
    const target: Target = {
      ...this.#device.target,
      // Who forces a variant allows what it rounds.
      ...(variant && { forcedVariants: { [name]: variant }, operands: "int8" as const }),
    };
    const graph = new Graph(name, target);
    copyTo(bench.build(...this.#inputs.map((tensor) => graph.use(tensor))), this.#output);
    const programs: ExecutableSet = await instantiate(planMemory({ op: graph }), this.#device);
    const program = programs.get("op");
    const kernels = new Set(
      program.submits.flat().map(({ planned }) => planned.dispatch.kernel.name),
    );
    return { kernels: [...kernels], program, destroy: () => programs.destroy() };
  }

  /** What the variant gave that ran last. */
  result(): Promise<Float32Array> {
    return this.#output.readFloat32();
  }

  /** Frees inputs and result. */
  destroy(): void {
    for (const tensor of [...this.#inputs, this.#output]) tensor.destroy();
  }
}
