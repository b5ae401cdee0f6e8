/** ONNX Runtime for the web on its WebGPU provider, inputs and outputs in GPU buffers. */

import { elementCount } from "../../../report/op_cases.ts";
import type { OpCase } from "./cases.ts";
import { type Contender, copiesOf, type PreparedOp } from "./contender.ts";
import { onnxModel } from "./onnx_models.ts";
import { loadPackage, ONNX_RUNTIME } from "./packages.ts";

interface OrtTensor {
  dispose(): void;
}

interface OrtSession {
  run(
    feeds: Readonly<Record<string, OrtTensor>>,
    fetches: Readonly<Record<string, OrtTensor>>,
  ): Promise<unknown>;
  release(): Promise<void>;
}

/** What is used of the package. */
interface OrtModule {
  env: {
    logLevel: string;
    webgpu: { powerPreference?: string; readonly device: Promise<GPUDevice> };
  };
  InferenceSession: { create(model: Uint8Array, options: object): Promise<OrtSession> };
  Tensor: {
    fromGpuBuffer(
      buffer: GPUBuffer,
      options: { dataType: "float32"; dims: readonly number[] },
    ): OrtTensor;
  };
}

/** How often a model computes a small op. */
const MAX_COPIES = 16;

/** STORAGE | COPY_DST | COPY_SRC, and MAP_READ | COPY_DST. */
const STORAGE_USAGE = 0x80 | 0x08 | 0x04;
const STAGING_USAGE = 0x01 | 0x08;

/**
 * Opens ONNX Runtime.
 *
 * @throws {Error} when it cannot be loaded
 */
export async function openOnnxRuntime(): Promise<Contender> {
  const ort = await loadPackage(ONNX_RUNTIME) as OrtModule;
  ort.env.webgpu.powerPreference = "high-performance";
  // Warnings say which small nodes it moves to the CPU; errors are thrown.
  ort.env.logLevel = "error";
  return {
    name: ONNX_RUNTIME.name,
    prepare: (op, inputs) => prepare(ort, op, inputs),
    close: async () => (await ort.env.webgpu.device).destroy(),
  };
}

async function prepare(
  ort: OrtModule,
  op: OpCase,
  inputs: readonly Float32Array[],
): Promise<PreparedOp> {
  const copies = copiesOf(op, MAX_COPIES);
  const model = onnxModel(op, inputs, copies);
  const session = await ort.InferenceSession.create(model.bytes, {
    executionProviders: ["webgpu"],
    // Its optimizer would compute equal nodes once.
    graphOptimizationLevel: copies > 1 ? "disabled" : "all",
  });
  const device = await ort.env.webgpu.device;
  const buffers: GPUBuffer[] = [];
  const bind = (shape: readonly number[], values?: Float32Array) => {
    const buffer = device.createBuffer({ size: 4 * elementCount(shape), usage: STORAGE_USAGE });
    buffers.push(buffer);
    if (values) device.queue.writeBuffer(buffer, 0, values as Float32Array<ArrayBuffer>);
    return ort.Tensor.fromGpuBuffer(buffer, { dataType: "float32", dims: shape });
  };
  const feeds = Object.fromEntries(
    Object.entries(model.feeds).map(([name, { shape, values }]) => [name, bind(shape, values)]),
  );
  const fetches = Object.fromEntries(
    Array.from({ length: copies }, (_, i) => [`y${i}`, bind(model.output)]),
  );
  const last = buffers.at(-1)!;
  return {
    copies,
    async run(times) {
      for (let i = 0; i < times; i++) await session.run(feeds, fetches);
      await device.queue.onSubmittedWorkDone();
    },
    result: async () => model.toOurs(await readBuffer(device, last)),
    async destroy() {
      await session.release();
      for (const buffer of buffers) buffer.destroy();
    },
  };
}

async function readBuffer(device: GPUDevice, buffer: GPUBuffer): Promise<Float32Array> {
  const staging = device.createBuffer({ size: buffer.size, usage: STAGING_USAGE });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, staging, 0, buffer.size);
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(GPUMapMode.READ);
  const values = new Float32Array(staging.getMappedRange().slice(0));
  staging.destroy();
  return values;
}
