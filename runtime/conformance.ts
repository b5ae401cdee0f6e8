/** The case table of an op, and the check of every case on every variant against a reference in double precision. */
import type { Device } from "./device/device.ts";
import type { StorageFormat } from "./dtype.ts";
import { Graph, type Tensor } from "./graph/graph.ts";
import { planMemory } from "./program/plan.ts";
import { instantiate } from "./program/executable.ts";
import { storeFactorsAsHalf } from "./program/half_results.ts";
import { isWeightFormat } from "./quantization/formats.ts";
import { DeviceTensor } from "./device/device_tensor.ts";
import { formatShape, sameShape, stridesOf } from "./shape.ts";
import type { Target } from "./target.ts";
import { copyTo } from "./ops/copy/mod.ts";
import { clampToHalf, type NdArray, roundTo, roundToHalf } from "./ops/ndarray.ts";

export interface CaseInput {
  readonly values: NdArray;
  readonly dtype: StorageFormat;
  /** Bytes that `values` of quantised weights are decoded from, and the scale of all. */
  readonly blocks?: { readonly bytes: Uint8Array; readonly scale: number };
}

export interface OpCase {
  /** What is special about it, e.g. `M=17 K=60 N=33 f16 bias silu`. */
  readonly name: string;
  readonly inputs: Readonly<Record<string, CaseInput>>;
  /** Calls the op; gives its results. */
  build(tensors: Readonly<Record<string, Tensor>>, graph: Graph): readonly Tensor[];
  /** Computes the op in double precision, on inputs already rounded to their dtypes. */
  reference(inputs: Readonly<Record<string, NdArray>>): readonly NdArray[];
  /** Largest error allowed, as a part of the largest magnitude in the result. */
  readonly tolerance: number;
  /** Inputs that some kernels round to f16, which the reference then gets rounded too. */
  readonly half?: { readonly inputs: readonly string[]; readonly tolerance: number };
}

export interface OpSuite {
  readonly variants: readonly string[];
  readonly cases: readonly OpCase[];
  /** Cases of so much work that software adapters take kernels of their own for it; none by default. */
  readonly heavy?: readonly OpCase[];
  /** What kernels may round their operands to; f32 by default. */
  readonly operands?: Target["operands"];
}

interface WorstElement {
  readonly index: readonly number[];
  readonly actual: number;
  readonly expected: number;
  /** Difference as a part of the largest expected magnitude. */
  readonly error: number;
}

function worstElement(actual: Float64Array, expected: NdArray): WorstElement {
  const scale = expected.data.reduce((max, value) => Math.max(max, Math.abs(value)), 1e-30);
  let worst = 0;
  let at = 0;
  expected.data.forEach((value, i) => {
    const difference = Object.is(value, actual[i]) ? 0 : Math.abs(value - actual[i]!) / scale;
    const error = Number.isNaN(difference) ? Infinity : difference;
    if (error > worst) {
      worst = error;
      at = i;
    }
  });
  const index = stridesOf(expected.shape).map((stride, axis) =>
    Math.floor(at / stride) % expected.shape[axis]!
  );
  return { index, actual: actual[at]!, expected: expected.data[at]!, error: worst };
}

/** A case that a variant does not take, with the variant's reason. */
export class UnsupportedCase extends Error {
  override readonly name = "UnsupportedCase";
}

interface TracedCase {
  readonly graph: Graph;
  readonly inputs: readonly DeviceTensor[];
  readonly outputs: readonly DeviceTensor[];
}

/** Error that storing a result as f16 may add, as a part of the largest magnitude. */
const HALF_STEP = 2 ** -11;
/** Error that sums of 16 products in f16 may add, as variants have them whose names begin with `half`. */
const HALF_SUMS = 2 ** -9;

/** Whether a traced case stores a result as f16. */
export function storesHalf({ graph }: TracedCase): boolean {
  return graph.dispatches.some(({ kernel }) => kernel.buffers.some(({ isCounted }) => isCounted));
}

/** Builds a case's graph for a target; needs no device. */
export function traceCase(
  testCase: OpCase,
  target: Target,
  storage: "f32" | "f16" = "f32",
): TracedCase {
  const graph = new Graph(testCase.name, target);
  const inputs: DeviceTensor[] = [];
  const tensors: Record<string, Tensor> = {};
  for (const [name, { values, dtype }] of Object.entries(testCase.inputs)) {
    const tensor = new DeviceTensor(name, values.shape, dtype);
    inputs.push(tensor);
    tensors[name] = graph.use(tensor);
  }
  try {
    const outputs = testCase.build(tensors, graph).map((tensor, i) => {
      const output = new DeviceTensor(`result ${i}`, tensor.shape, tensor.dtype);
      copyTo(tensor, output);
      return output;
    });
    if (storage === "f16") storeFactorsAsHalf(graph, () => true);
    return { graph, inputs, outputs };
  } catch (error) {
    if (
      error instanceof RangeError && REFUSALS.some((refusal) => error.message.includes(refusal))
    ) {
      throw new UnsupportedCase(error.message);
    }
    throw error;
  }
}

const REFUSALS = ["this variant does not take the problem", "storage bindings, the adapter has"];

export async function runCase(
  device: Device,
  testCase: OpCase,
  target = device.target,
  repetitions = 1,
  storage: "f32" | "f16" = "f32",
): Promise<void> {
  const traced = traceCase(testCase, target, storage);
  const { graph, inputs, outputs } = traced;
  const tensors = [...inputs, ...outputs];
  const rounds = graph.dispatches.some(({ kernel }) => kernel.usesF16);
  const half = rounds ? testCase.half : undefined;
  const sumsHalf = Object.values(target.forcedVariants).some((name) => name.startsWith("half"));
  const arrays = Object.entries(testCase.inputs).map(([name, { values, dtype }]) => {
    const stored = isWeightFormat(dtype) ? values : roundTo(values, dtype);
    return [name, half?.inputs.includes(name) ? roundToHalf(stored) : stored];
  });
  const expected = testCase.reference(Object.fromEntries(arrays));
  const plan = planMemory({ main: graph });
  const before = device.allocatedBytes;
  for (const tensor of tensors) tensor.allocate(device);
  try {
    using programs = await instantiate(plan, device);
    if (device.allocatedBytes - before !== plan.workspaceBytes + sum(tensors)) {
      throw new Error(
        `Cannot trust the plan of "${testCase.name}": it says ${plan.peakBytes} bytes, ${
          device.allocatedBytes - before
        } were allocated`,
      );
    }
    const run = async () => {
      // Ops that work in place change their inputs.
      Object.values(testCase.inputs).forEach(({ values, blocks }, i) => {
        if (blocks) inputs[i]!.writeRows(blocks.bytes, 0, blocks.scale);
        else inputs[i]!.write(values.data);
      });
      programs.get("main").submit();
      return await Array.fromAsync(outputs, (output) => output.read());
    };
    const results = await run();
    const isHalf = storesHalf(traced);
    for (const [i, output] of outputs.entries()) {
      const stored = isHalf ? clampToHalf(expected[i]!) : expected[i]!;
      assertClose(results[i]!, stored, output.shape, {
        name: testCase.name,
        tolerance: (half?.tolerance ?? testCase.tolerance) + (isHalf ? HALF_STEP : 0) +
          (sumsHalf ? HALF_SUMS : 0),
      });
    }
    for (let repetition = 2; repetition <= repetitions; repetition++) {
      const again = await run();
      if (
        again.some((values, i) => values.some((value, j) => !Object.is(value, results[i]![j])))
      ) {
        throw new Error(
          `Cannot accept "${testCase.name}": run ${repetition} of ${repetitions} gives other bits than the first`,
        );
      }
    }
  } finally {
    for (const tensor of tensors) tensor.destroy();
  }
}

function sum(tensors: readonly DeviceTensor[]): number {
  return tensors.reduce((total, { byteLength }) => total + byteLength, 0);
}

function assertClose(
  actual: Float64Array,
  expected: NdArray,
  shape: readonly number[],
  testCase: Pick<OpCase, "name" | "tolerance">,
): void {
  if (!sameShape(shape, expected.shape)) {
    throw new Error(
      `Cannot accept "${testCase.name}": the shape is ${formatShape(shape)}, the reference has ${
        formatShape(expected.shape)
      }`,
    );
  }
  const worst = worstElement(actual, expected);
  if (worst.error > testCase.tolerance) {
    throw new Error(
      `Cannot accept "${testCase.name}": worst element at [${worst.index}] is ${worst.actual}, the reference says ${worst.expected} ` +
        `(error ${worst.error.toExponential(2)}, allowed ${testCase.tolerance.toExponential(2)})`,
    );
  }
}
