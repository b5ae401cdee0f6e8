/** Our own ops, as one program each. */

import {
  attention,
  conv2d,
  copyTo,
  type Device,
  Graph,
  instantiate,
  linear,
  matmul,
  openDevice,
  planMemory,
  Resident,
  type Tensor,
} from "../../../runtime/mod.ts";
import type { OpCase } from "./cases.ts";
import { type Contender, copiesOf, type PreparedOp } from "./contender.ts";

/** How often a program computes a small op. */
const MAX_COPIES = 256;

/** One of ours that also tells what it ran. */
export interface OwnOp extends PreparedOp {
  /** Names of the kernels of one call. */
  readonly kernels: readonly string[];
}

/** Our ops on an open device. */
export interface Ours extends Contender {
  readonly device: Device;
  prepare(op: OpCase, inputs: readonly Float32Array[]): Promise<OwnOp>;
}

/**
 * Opens the adapter that denoise would take.
 *
 * @throws {NoAdapterError} when there is none
 */
export async function openOurs(): Promise<Ours> {
  const device = await openDevice();
  return {
    name: "denoise",
    device,
    prepare: (op, inputs) => prepare(device, op, inputs),
    close: () => device.destroy(),
  };
}

async function prepare(
  device: Device,
  op: OpCase,
  inputs: readonly Float32Array[],
): Promise<OwnOp> {
  const copies = copiesOf(op, MAX_COPIES);
  // One submit per program: the budget of a submit is for desktops.
  const target = { ...device.target, submitBudget: { flops: Infinity, bytes: Infinity } };
  const residents = op.inputs.map((shape, i) => new Resident(`input ${i}`, shape));
  const output = new Resident("output", op.output);
  const trace = (name: string, record: (build: () => Tensor) => void) => {
    const graph = new Graph(name, target);
    const tensors = residents.map((resident) => graph.use(resident));
    record(() => build(op, tensors));
    return graph;
  };
  const timed = trace("timed", (build) => {
    for (let i = 0; i < copies; i++) build();
  });
  const checked = trace("checked", (build) => copyTo(build(), output));
  residents.forEach((resident, i) => resident.allocate(device).write(inputs[i]!));
  output.allocate(device);
  const programs = await instantiate(planMemory({ timed, checked }), device);
  return {
    copies,
    kernels: checked.dispatches.slice(0, -1).map(({ kernel }) => kernel.name),
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
      for (const resident of [...residents, output]) resident.destroy();
    },
  };
}

function build({ op }: OpCase, tensors: readonly Tensor[]): Tensor {
  const [a, b, c] = tensors as [Tensor, Tensor, Tensor];
  switch (op) {
    case "matmul":
      return matmul(a, b);
    case "linear":
      return linear(a, b);
    case "attention":
      return attention(a, b, c);
    case "conv2d":
      return conv2d(a, b, { padding: [1, 1, 1, 1] });
  }
}
