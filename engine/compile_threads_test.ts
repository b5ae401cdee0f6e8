import assert from "node:assert/strict";
import { elementwise, f32, kernelCodes, openDevice, Program, Turns } from "../runtime/mod.ts";
import { compileHelpers } from "./compile_threads.ts";

Deno.test("compileHelpers() take turns at compiling, and a kernel that is refused ends no more than their help", async () => {
  const settings = { forceFallbackAdapter: true };
  const device = await openDevice(settings);
  const helpers = compileHelpers(device, settings);
  const sum = new Program(
    "sum",
    device.target,
    { x: f32(8) },
    ({ x }) => elementwise("x + x", { x }),
  );
  const kernels = kernelCodes([sum.graph], device.target);
  assert.ok(kernels.length > 0);
  const turns = new Turns();
  await helpers?.compile(kernels, turns);
  const hasHelp = navigator.hardwareConcurrency > 1;
  assert.equal(turns.finished, hasHelp ? kernels.length : 0);
  await helpers?.compile([{ ...kernels[0]!, wgsl: "fn main( {" }], new Turns());
  device.destroy();
});
