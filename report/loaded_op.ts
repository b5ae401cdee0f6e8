/** An op at one size, ready to be timed: with the kernels that the adapter gets, or with any others that take it. */
import { bytesPerElement, type StorageFormat } from "../runtime/dtype.ts";
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
import { fillRandom } from "../runtime/ops/sample_blocks.ts";
import type { Bench } from "../runtime/ops/op.ts";
import { OP_SUITES, OPS } from "../runtime/ops/registry.ts";
import { blockBytes, isWeightFormat } from "../runtime/quantization/formats.ts";
import { elementCount } from "../runtime/shape.ts";

/** Magnitude of every element: sums of products then have about that of their factors. */
const MAGNITUDE = 0.7;

export interface OpRun extends Disposable {
  /** Names of the kernels of one call, in order. */
  readonly kernels: readonly string[];
  readonly program: Executable;
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
      this[Symbol.dispose]();
      throw error;
    }
  }

  /** Compiles one of {@linkcode variantsOf}; the adapter's own choice by default. */
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
    return { kernels: [...kernels], program, [Symbol.dispose]: () => programs.destroy() };
  }

  /** What the variant gave that ran last. */
  result(): Promise<Float32Array> {
    return this.#output.readFloat32();
  }

  [Symbol.dispose](): void {
    for (const tensor of [...this.#inputs, this.#output]) tensor.destroy();
  }
}

/** Every op that is benched, by the name that specs have, with the name of the op itself. */
const BENCHES: ReadonlyMap<string, { readonly op: string; readonly bench: Bench }> = new Map(
  OPS.flatMap(({ name: op, benches = {} }) =>
    Object.entries(benches).map(([name, bench]) => [name, { op, bench }] as const)
  ),
);

export interface OpCase<Op extends string = string> {
  readonly op: Op;
  /** Sizes as tables have them, e.g. `32x640x160`. */
  readonly shape: string;
  readonly sizes: readonly number[];
  /** How the second input is stored where it is a weight; everything else is f32. */
  readonly weights: StorageFormat;
  readonly inputs: readonly (readonly number[])[];
  readonly output: readonly number[];
  /** Arithmetic operations; of attention the products only. */
  readonly flops: number;
  /** Bytes that must move at least: every input and the result once. */
  readonly bytes: number;
}

/** Reads `OP:SIZExSIZE…`, with `:FORMAT` behind it where the weight is not f32. */
export function parseCase(spec: string): OpCase {
  const [op = "", shape = "", weights = "f32"] = spec.split(":");
  const known = BENCHES.get(op);
  if (!known) {
    throw new RangeError(`Cannot bench "${spec}": the ops are ${[...BENCHES.keys()].join(", ")}`);
  }
  const sizes = shape.split("x").map(Number);
  const { sizes: names, weights: formats = ["f32"], describe } = known.bench;
  const isComplete = sizes.length === names.length;
  if (!isComplete || !sizes.every((size) => Number.isInteger(size) && size > 0)) {
    throw new RangeError(
      `Cannot bench "${spec}": ${op} takes ${
        names.join("x")
      }, all of them positive integers; each spec is an argument of its own`,
    );
  }
  const format = formats.find((each) => each === weights);
  if (format === undefined) {
    throw new RangeError(
      `Cannot bench "${spec}" with weights ${weights}: ${op} takes ${formats.join(", ")}`,
    );
  }
  const { inputs, output, flops } = describe(sizes);
  const bytes = [...inputs, output].reduce(
    (sum, each, i) => sum + storedBytes(each, i === 1 ? format : "f32"),
    0,
  );
  return { op, shape, sizes, weights: format, inputs, output, flops, bytes };
}

export function benchOf(op: string): { readonly op: string; readonly bench: Bench } {
  const known = BENCHES.get(op);
  if (!known) throw new RangeError(`Cannot bench "${op}": it is no op`);
  return known;
}

/** The spec that a case is read from; also the name of its figure in the history. */
export function specOf(
  { op, shape, weights }: { op: string; shape: string; weights: string },
): string {
  return weights === "f32" ? `${op}:${shape}` : `${op}:${shape}:${weights}`;
}

function storedBytes(shape: readonly number[], format: StorageFormat): number {
  if (isWeightFormat(format)) return blockBytes(shape, format);
  return elementCount(shape) * bytesPerElement(format);
}
