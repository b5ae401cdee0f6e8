/** jax-js on its WebGPU backend. */

import { type OpCase, permute } from "./cases.ts";
import { type Contender, copiesOf, type PreparedOp } from "./contender.ts";
import { JAX, loadPackage } from "./packages.ts";

/** An array of jax-js: a use takes it, `ref` keeps it for another one. */
interface JaxArray {
  readonly ref: JaxArray;
  dispose(): void;
  data(): Promise<Float32Array>;
  gpuBuffer(): Promise<GPUBuffer>;
}

type JaxFunction = ((...inputs: JaxArray[]) => JaxArray[]) & { dispose(): void };

/** What is used of the package. */
interface JaxModule {
  init(device: "webgpu"): Promise<string[]>;
  defaultDevice(device: "webgpu"): void;
  getWebGPUDevice(): GPUDevice;
  jit(build: (...inputs: JaxArray[]) => JaxArray[]): JaxFunction;
  numpy: {
    array(values: Float32Array, options: { shape: readonly number[] }): JaxArray;
    matmul(a: JaxArray, b: JaxArray): JaxArray;
    matrixTranspose(a: JaxArray): JaxArray;
  };
  nn: { dotProductAttention(q: JaxArray, k: JaxArray, v: JaxArray): JaxArray };
  lax: {
    convGeneralDilated(x: JaxArray, w: JaxArray, strides: number[], padding: number[][]): JaxArray;
  };
}

/** How often a compiled function computes a small op. */
const MAX_COPIES = 16;

/**
 * Opens jax-js.
 *
 * @throws {Error} when it cannot be loaded or finds no adapter
 */
export async function openJax(): Promise<Contender> {
  const jax = await loadPackage(JAX) as JaxModule;
  const devices = await jax.init("webgpu");
  if (!devices.includes("webgpu")) throw new Error("Cannot open jax-js: it finds no adapter");
  jax.defaultDevice("webgpu");
  return {
    name: JAX.name,
    prepare: (op, inputs) => Promise.resolve(prepare(jax, op, inputs)),
    close: () => jax.getWebGPUDevice().destroy(),
  };
}

function prepare(jax: JaxModule, op: OpCase, inputs: readonly Float32Array[]): PreparedOp {
  const isConv = op.op === "conv2d";
  const arrays = op.inputs.map((shape, i) =>
    isConv
      ? jax.numpy.array(permute(inputs[i]!, shape, [0, 3, 1, 2]), {
        shape: [shape[0]!, shape[3]!, shape[1]!, shape[2]!],
      })
      : jax.numpy.array(inputs[i]!, { shape })
  );
  const copies = copiesOf(op, MAX_COPIES);
  const compute = jax.jit((...own) => Array.from({ length: copies }, () => build(jax, op, own)));
  let last: JaxArray[] = [];
  const forget = () => {
    for (const array of last) array.dispose();
    last = [];
  };
  return {
    copies,
    async run(times) {
      for (let i = 0; i < times; i++) {
        forget();
        last = compute(...arrays.map((array) => array.ref));
        // Arrays are lazy: one that nobody asks for is never computed.
        await Promise.all(last.map((array) => array.ref.gpuBuffer()));
      }
      await jax.getWebGPUDevice().queue.onSubmittedWorkDone();
    },
    async result() {
      const values = await last[0]!.ref.data();
      const [batch, height, width, channels] = op.output as [number, number, number, number];
      return isConv ? permute(values, [batch, channels, height, width], [0, 2, 3, 1]) : values;
    },
    destroy() {
      forget();
      compute.dispose();
      for (const array of arrays) array.dispose();
    },
  };
}

function build(jax: JaxModule, { op }: OpCase, inputs: readonly JaxArray[]): JaxArray {
  const [a, b, c] = inputs.map((array) => array.ref) as [JaxArray, JaxArray, JaxArray];
  switch (op) {
    case "matmul":
      return jax.numpy.matmul(a, b);
    case "linear":
      return jax.numpy.matmul(a, jax.numpy.matrixTranspose(b));
    case "attention":
      return jax.nn.dotProductAttention(a, b, c);
    case "conv2d":
      return jax.lax.convGeneralDilated(a, b, [1, 1], [[1, 1], [1, 1]]);
  }
}
