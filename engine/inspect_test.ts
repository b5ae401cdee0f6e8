import assert from "node:assert/strict";
import { inspectDevice } from "./mod.ts";

Deno.test("inspectDevice() names the adapter, its limits, and tests that all pass", async () => {
  const told: number[] = [];
  const report = await inspectDevice({}, ({ fraction }) => told.push(fraction));
  assert.notEqual(report.adapter, "");
  assert.ok(report.limits["maxBufferSize"]! >= 2 ** 28);
  assert.ok(report.selfTests.length > 10);
  assert.deepEqual(told, report.selfTests.map((_, i) => i / report.selfTests.length));
  assert.deepEqual(report.selfTests.filter(({ outcome }) => outcome === "failed"), []);
});
