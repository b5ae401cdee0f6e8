import assert from "node:assert/strict";
import { defaultBackend, type GpuBackend, gpuOf } from "./backends/backend.ts";
import { openDevice } from "../open_device.ts";
import {
  DeviceLostError,
  GpuValidationError,
  NoAdapterError,
  OutOfMemoryError,
} from "../errors.ts";
import { createWindows, DeviceTensor } from "./device_tensor.ts";

Deno.test("openDevice() says what to install when there is no adapter", async () => {
  const gpu = { requestAdapter: () => Promise.resolve(null) } as unknown as GPU;
  await assert.rejects(openDevice({ gpu }), (error: Error) => {
    assert.ok(error instanceof NoAdapterError);
    assert.match(error.message, /driver/);
    return true;
  });
});

Deno.test("openDevice() asks for the adapter's own limits", async () => {
  const gpu = gpuOf(defaultBackend() as GpuBackend);
  const adapter = await gpu.requestAdapter();
  const device = await openDevice({ gpu });
  assert.equal(device.target.limits.maxBufferBytes, adapter!.limits.maxBufferSize);
  assert.equal(
    device.target.limits.maxStorageBuffers,
    adapter!.limits.maxStorageBuffersPerShaderStage,
  );
  device.destroy();
});

Deno.test("Device.createBuffer() keeps to the byte budget", async () => {
  const device = await openDevice({ maxBytes: 1000 });
  const kept = device.createBuffer("kept", 600);
  assert.throws(() => device.createBuffer("too much", 500), (error: Error) => {
    assert.ok(error instanceof OutOfMemoryError);
    assert.equal(error.requestedBytes, 500);
    assert.equal(error.availableBytes, 400);
    return true;
  });
  assert.equal(device.allocatedBytes, 600);
  device.destroyBuffer(kept);
  assert.equal(device.allocatedBytes, 0);
  assert.equal(device.peakBytes, 600);
  device.destroy();
});

Deno.test("Device.guarded() gives a typed error for a shader that does not compile", async () => {
  const device = await openDevice();
  await assert.rejects(
    device.guarded(() => device.pipeline({ label: "broken", wgsl: "fn main( {", bindings: [] })),
    GpuValidationError,
  );
  device.destroy();
});

Deno.test("Device.guarded() throws WebGPU's report, else what the callback threw, and caches no bad pipeline", async () => {
  const device = await openDevice();
  const thrown = new RangeError("own");
  await assert.rejects(
    device.guarded(() => {
      throw thrown;
    }),
    thrown,
  );
  await assert.rejects(
    device.guarded(() => {
      device.pipeline({ label: "broken", wgsl: "fn main( {", bindings: [] });
      throw thrown;
    }),
    GpuValidationError,
  );
  const { pipelines } = device.counters;
  await assert.rejects(
    device.guarded(() => device.pipeline({ label: "broken", wgsl: "fn main( {", bindings: [] })),
    GpuValidationError,
  );
  assert.equal(device.counters.pipelines, pipelines + 1, "it is compiled anew");
  device.check();
  device.destroy();
});

Deno.test("Device.pipeline() forgets those that were not used for longest, beyond 128 in software", async () => {
  const device = await openDevice({ forceFallbackAdapter: true });
  const compile = (i: number) => {
    const wgsl = `@compute @workgroup_size(1) fn main() { let x = ${i}; }`;
    device.pipeline({ label: `${i}`, wgsl, bindings: [] });
  };
  for (let i = 0; i < 128; i++) compile(i);
  compile(0);
  compile(128);
  const { pipelines } = device.counters;
  compile(0);
  assert.equal(device.counters.pipelines, pipelines, "used again");
  compile(1);
  assert.equal(device.counters.pipelines, pipelines + 1, "the oldest");
  device.destroy();
});

Deno.test("Device.read() counts its copy while it lasts, and keeps to the byte budget", async () => {
  const device = await openDevice({ maxBytes: 1000 });
  const tensor = new DeviceTensor("tensor", [100]).allocate(device);
  await tensor.read();
  assert.equal(device.allocatedBytes, 400);
  assert.equal(device.peakBytes, 800);
  const rest = device.createBuffer("rest", 400);
  await assert.rejects(tensor.read(), OutOfMemoryError);
  assert.equal(device.allocatedBytes, 800);
  device.destroyBuffer(rest);
  device.destroy();
});

Deno.test("createWindows() leaves nothing allocated when the budget holds only some of its buffers", async () => {
  const device = await openDevice({
    maxBytes: 1000,
    limits: { maxBindingBytes: 256, maxBufferBytes: 512 },
  });
  assert.throws(() => createWindows(device, "large", 1100), OutOfMemoryError);
  assert.equal(device.allocatedBytes, 0);
  assert.equal(createWindows(device, "fits", 1000).length, 4);
  device.destroy();
});

Deno.test("Device.wait() throws what happened outside of any scope, once", async () => {
  const device = await openDevice();
  device.gpuDevice.createBuffer({ size: 2 ** 50, usage: GPUBufferUsage.STORAGE });
  await assert.rejects(device.wait(), GpuValidationError);
  await device.wait();
  device.destroy();
});

Deno.test("Device.check() throws DeviceLostError for ever after a loss", async () => {
  const device = await openDevice();
  device.destroy();
  const reason = await device.lost;
  assert.ok(reason instanceof DeviceLostError);
  assert.throws(() => device.check(), DeviceLostError);
  assert.throws(() => device.check(), DeviceLostError);
});

Deno.test("DeviceTensor.read() gives back what was written, in every dtype and over several bindings", async () => {
  const device = await openDevice();
  for (const dtype of ["f32", "f16", "bf16", "i32", "u32"] as const) {
    const tensor = new DeviceTensor(dtype, [3, 5], dtype).allocate(device);
    const values = Float64Array.from({ length: 15 }, (_, i) => i);
    tensor.write(values);
    assert.deepEqual(await tensor.read(), values);
    tensor.clear();
    assert.deepEqual(await tensor.read(), new Float64Array(15));
    tensor.destroy();
  }
  assert.equal(device.allocatedBytes, 0);
  device.destroy();
});

Deno.test("DeviceTensor.write() refuses the wrong number of values", async () => {
  const device = await openDevice();
  const tensor = new DeviceTensor("weights", [4]).allocate(device);
  assert.throws(() => tensor.write([1, 2, 3]), /Cannot write 3 values to tensor "weights"/);
  device.destroy();
});

Deno.test("openDevice() prints nothing where there is no desktop session", async () => {
  const url = new URL("../open_device.ts", import.meta.url);
  const script = `import { openDevice } from "${url}"; (await openDevice()).destroy();`;
  const env = { ...Deno.env.toObject() };
  delete env.XDG_RUNTIME_DIR;
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--config", new URL("../../deno.json", import.meta.url).pathname, script],
    ...{ env, clearEnv: true },
  }).output();
  assert.equal(new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr), "");
});
