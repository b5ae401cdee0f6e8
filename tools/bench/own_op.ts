/** Our own ops, one program each, ready to be timed. */

import {
  copyTo,
  type Device,
  Graph,
  instantiate,
  isWeightFormat,
  planMemory,
  Resident,
  type Tensor,
  type WeightFormat,
} from "../../runtime/mod.ts";
import { blockBytes } from "../../runtime/quantization/formats.ts";
import { sampleBlocks } from "../../runtime/ops/sample_blocks.ts";
import { OP_SUITES } from "../../runtime/ops/registry.ts";
import { benchOf, makeInput, type OpCase } from "./cases.ts";
import type { Repeatable } from "./turns.ts";

/** Work of one program, so that the cost of a submit does not count; and how often one computes a small op at most. */
const PROGRAM_FLOPS = 5e7;
const MAX_COPIES = 256;

/** Rows of a quantised weight that are made; they are repeated, because making all of them takes longer than timing. */
const SAMPLED_ROWS = 32;

/** An op at one size whose inputs are on the device. */
export interface OwnOp extends Repeatable {
  /** Names of the kernels of one call, in order. */
  readonly kernels: readonly string[];
  /** The result of one call. */
  result(): Promise<Float32Array>;
  /** Frees what it holds. */
  destroy(): void;
}

/** Names of the variants of an op; one empty name where there is a single way. */
export function variantsOf(op: string): readonly string[] {
  const { op: name } = benchOf(op);
  return OP_SUITES.find((suite) => suite.op === name)?.variants ?? [""];
}

/**
 * Brings an op to the device.
 *
 * @param variant forces one of `variantsOf`; the adapter's own choice when left out
 * @param inputs made up when left out
 * @throws {RangeError} when the variant does not take the case
 */
export async function prepareOwnOp(
  device: Device,
  op: OpCase,
  { variant, inputs }: { variant?: string; inputs?: readonly Float32Array[] } = {},
): Promise<OwnOp> {
  const { op: name, bench } = benchOf(op.op);
  const target = {
    ...device.target,
    // One submit per program: the budget of a submit is for desktops.
    submitBudget: { flops: Infinity, bytes: Infinity },
    ...(variant && { forcedVariants: { [name]: variant } }),
  };
  const residents = op.inputs.map((shape, i) =>
    new Resident(`input ${i}`, shape, i === 1 ? op.weights : "f32")
  );
  const output = new Resident("output", op.output);
  const trace = (label: string, record: (call: () => Tensor) => void) => {
    const graph = new Graph(label, target);
    const inputs = residents.map((resident) => graph.use(resident));
    record(() => bench.build(...inputs));
    return graph;
  };
  const copies = Math.max(1, Math.min(MAX_COPIES, Math.ceil(PROGRAM_FLOPS / op.flops)));
  const timed = trace("timed", (call) => {
    for (let i = 0; i < copies; i++) call();
  });
  const checked = trace("checked", (call) => copyTo(call(), output));
  const destroy = () => [...residents, output].forEach((resident) => resident.destroy());
  try {
    output.allocate(device);
    for (const [i, resident] of residents.entries()) {
      resident.allocate(device);
      if (isWeightFormat(resident.dtype)) {
        resident.writeRows(makeBlocks(op.inputs[i]!, resident.dtype));
      } else resident.write(inputs?.[i] ?? makeInput(op.inputs[i]!, i));
    }
    const programs = await instantiate(planMemory({ timed, checked }), device);
    return {
      kernels: checked.dispatches.slice(0, -1).map(({ kernel }) => kernel.name),
      copies,
      async run(times) {
        for (let i = 0; i < times; i++) programs.get("timed").submit();
        await device.wait();
      },
      result() {
        programs.get("checked").submit();
        return output.readFloat32();
      },
      destroy() {
        programs.destroy();
        destroy();
      },
    };
  } catch (error) {
    destroy();
    throw error;
  }
}

function makeBlocks(shape: readonly number[], format: WeightFormat): Uint8Array {
  const sample = sampleBlocks([SAMPLED_ROWS, shape[1]!], format, 1, 0.5);
  const bytes = new Uint8Array(blockBytes(shape, format));
  for (let at = 0; at < bytes.length; at += sample.length) {
    bytes.set(sample.subarray(0, bytes.length - at), at);
  }
  return bytes;
}
