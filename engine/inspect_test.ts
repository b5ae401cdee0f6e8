import assert from "node:assert/strict";
import { inspectDevice } from "./mod.ts";

Deno.test("inspectDevice() names the adapter, its limits, and tests that all pass", async () => {
  const report = await inspectDevice();
  assert.notEqual(report.adapter, "");
  assert.ok(report.limits["maxBufferSize"]! >= 2 ** 28);
  assert.ok(report.selfTests.length > 10);
  assert.deepEqual(report.selfTests.filter(({ outcome }) => outcome === "failed"), []);
});
