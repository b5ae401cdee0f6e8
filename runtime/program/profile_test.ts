import assert from "node:assert/strict";
import { Graph } from "../graph/graph.ts";
import { openDevice } from "../open_device.ts";
import { copyTo } from "../ops/copy/mod.ts";
import { elementwise } from "../ops/elementwise/mod.ts";
import { linear } from "../ops/linear/mod.ts";
import { planMemory } from "./plan.ts";
import { measureTickPeriod, profileProgram } from "./profile.ts";
import { instantiate } from "./executable.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { runSequence } from "./work_queue.ts";

Deno.test("profileProgram() gives each kernel a row with its dispatches and a time", async () => {
  const device = await openDevice();
  if (!device.target.features.timestamps) return device.destroy();
  const graph = new Graph("profiled", device.target);
  const x = new DeviceTensor("x", [64, 64]).allocate(device);
  const w = new DeviceTensor("w", [64, 64]).allocate(device);
  const y = new DeviceTensor("y", [64, 64]).allocate(device);
  const hidden = linear(graph.use(x), graph.use(w));
  copyTo(elementwise("2 * h", { h: linear(hidden, graph.use(w)) }), y);
  const programs = await instantiate(planMemory({ main: graph }), device);
  await runSequence(device, [{ programs: [programs.get("main")] }]);
  const rows = await profileProgram(programs.get("main"));
  assert.equal(rows.length, 2);
  assert.equal(rows.find(({ kernel }) => kernel.startsWith("gemm"))?.dispatches, 2);
  assert.ok(rows.every(({ milliseconds }) => milliseconds > 0));
  assert.ok(rows[0]!.milliseconds >= rows[1]!.milliseconds);
  device.destroy();
});

Deno.test("measureTickPeriod() gives the length of a tick, which no driver makes longer than 1 µs", async () => {
  const device = await openDevice();
  if (device.target.features.timestamps) {
    const period = await measureTickPeriod(device);
    assert.ok(period > 0.01 && period < 1000, `${period} ns`);
  }
  device.destroy();
});
