import assert from "node:assert/strict";
import { elementwise, f32, kernelCodes, openDevice, Program, Turns } from "../runtime/mod.ts";
import { CompileThreads } from "./compile_threads.ts";

Deno.test("CompileThreads.compile() takes turns at compiling, and a kernel that is refused ends no more than its help", async () => {
  const device = { forceFallbackAdapter: true };
  const own = await openDevice(device);
  const sum = new Program("sum", own.target, { x: f32(8) }, ({ x }) => elementwise("x + x", { x }));
  const kernels = kernelCodes([sum.graph], own.target);
  own.destroy();
  assert.ok(kernels.length > 0);
  const threads = new CompileThreads();
  const turns = new Turns();
  await threads.compile({ device, kernels, turns: turns.shared });
  const hasHelp = navigator.hardwareConcurrency > 1;
  assert.equal(turns.finished, hasHelp ? kernels.length : 0);
  const refused = [{ ...kernels[0]!, wgsl: "fn main( {" }];
  await threads.compile({ device, kernels: refused, turns: new Turns().shared });
  assert.ok(await threads.ended(10_000));
});

Deno.test("CompileThreads.terminate() ends what is under way", async () => {
  const threads = new CompileThreads();
  const kernels = [{ label: "none", wgsl: "", bindings: [] }];
  const compiling = threads.compile({ device: {}, kernels, turns: new Turns().shared });
  threads.terminate();
  await compiling;
  assert.ok(await threads.ended(10_000));
});
