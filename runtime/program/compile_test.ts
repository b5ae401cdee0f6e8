import assert from "node:assert/strict";
import { compileKernels } from "./compile.ts";
import { type KernelCode, Turns } from "../device/compile_helpers.ts";
import type { Device } from "../device/device.ts";
import { openDevice } from "../open_device.ts";

function trivial(count: number): KernelCode[] {
  return Array.from({ length: count }, (_, i) => ({
    label: `${i}`,
    wgsl: `@group(0) @binding(0) var<uniform> params: vec4<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(8) fn main() { y[params.x] = ${i}u; }`,
    bindings: [{ type: "uniform", hasDynamicOffset: true }, { type: "storage" }],
  }));
}

/** Has a device take as long for every wait as a driver does that compiles. */
function slowDown(device: Device): void {
  device.wait = () => {
    for (const end = performance.now() + 150; performance.now() < end;);
    return Promise.resolve();
  };
}

Deno.test("compileKernels() compiles what the device lacks, tells how far it is, and asks nobody for a few", async () => {
  const device = await openDevice({ forceFallbackAdapter: true });
  device.helpers = { compile: () => assert.fail("too few") };
  const kernels = trivial(5);
  device.pipeline(kernels[0]!);
  const told: string[] = [];
  const onKernels = (done: number, total: number) => void told.push(`${done}/${total}`);
  let isUploaded = false;
  await compileKernels(
    device,
    kernels,
    { onKernels },
    () => Promise.resolve(void (isUploaded = true)),
  );
  assert.deepEqual(told, ["1/4", "2/4", "3/4", "4/4"]);
  assert.ok(isUploaded && kernels.every(({ wgsl }) => device.hasPipeline(wgsl)));
  await compileKernels(device, kernels, { onKernels: () => assert.fail("all are there") });
  device.destroy();
});

Deno.test("compileKernels() shares its turns with other threads once a kernel was slow", async () => {
  const device = await openDevice({ forceFallbackAdapter: true });
  slowDown(device);
  const { pipelines } = device.counters;
  let left = 0;
  device.helpers = {
    compile(kernels, turns) {
      const shared = new Turns(turns.shared);
      for (let i = 0; i < 4; i++) {
        assert.ok(shared.take() < kernels.length);
        shared.finish();
        left++;
      }
      return Promise.resolve();
    },
  };
  await compileKernels(device, trivial(8));
  assert.equal(left, 4);
  assert.equal(device.counters.pipelines - pipelines, 8, "those of others are found");
  device.destroy();
});

Deno.test("compileKernels() stops when it is cancelled, the other threads with it", async () => {
  const device = await openDevice({ forceFallbackAdapter: true });
  slowDown(device);
  let stopped: Turns | undefined;
  device.helpers = { compile: (_, turns) => Promise.resolve(void (stopped = turns)) };
  let asked = 0;
  const isCancelled = () => ++asked > 1;
  await assert.rejects(compileKernels(device, trivial(8), { isCancelled }), { name: "AbortError" });
  assert.ok(stopped!.take() > 8);
  device.destroy();
});

Deno.test("compileKernels() refuses a kernel that the driver refuses", async () => {
  const device = await openDevice({ forceFallbackAdapter: true });
  const broken = { label: "broken", wgsl: "fn main( {", bindings: [] };
  await assert.rejects(compileKernels(device, [broken]), { name: "GpuValidationError" });
  device.destroy();
});
