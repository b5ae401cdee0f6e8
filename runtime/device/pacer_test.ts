import assert from "node:assert/strict";
import { simulateRuns } from "../../tests/support/simulated_gpu.ts";
import { Pacer } from "./pacer.ts";

Deno.test("Pacer has room for one budget until something is measured", () => {
  assert.equal(new Pacer().room, 1);
});

Deno.test("Pacer learns how much work takes 90 ms", () => {
  const pacer = new Pacer();
  pacer.record(1, 0.005);
  assert.equal(pacer.room, 8, "eight times what was measured, and not 18 at once");
  pacer.record(8, 0.04);
  assert.ok(Math.abs(pacer.room - 18) < 1e-9);
});

Deno.test("Pacer lets a long measurement count for more than a short one", () => {
  const [short, long] = [new Pacer(), new Pacer()];
  for (const pacer of [short, long]) pacer.record(10, 0.1);
  short.record(0.01, 0.001);
  long.record(10, 1);
  assert.ok(short.room > 8.9 * 0.08, `${short.room}`);
  assert.ok(long.room < 1.5, `${long.room}`);
});

Deno.test("Pacer learns nothing from a clock that stands still", () => {
  const pacer = new Pacer();
  pacer.record(1, 0);
  pacer.record(0, 1);
  assert.equal(pacer.room, 1);
});

Deno.test("WorkQueue comes back from quick work to slow work within a watchdog's time", async () => {
  const quick = new Array(400).fill({ cost: 1, seconds: 0.002 });
  const slow = new Array(40).fill({ cost: 1, seconds: 0.03 });
  const { longestGroup, waits } = await simulateRuns([quick, slow, quick]);
  assert.ok(longestGroup < 1.5, `${longestGroup} s`);
  assert.ok(waits < 80, `${waits} waits`);
});

Deno.test("WorkQueue waits for every submit of a device that takes long for each", async () => {
  const slow = new Array(20).fill({ cost: 1, seconds: 0.3 });
  const { waits, longestGroup } = await simulateRuns([slow]);
  assert.deepEqual([waits, longestGroup], [20, 0.3]);
});
