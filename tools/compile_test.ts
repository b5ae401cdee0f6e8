import { strict as assert } from "node:assert";
import { embeddedPaths, isReadAtRunTime } from "./compile.ts";

Deno.test("isReadAtRunTime() takes workers and shaders, not modules or tests", () => {
  for (const path of ["engine/worker.ts", "engine/gpu_worker.ts", "runtime/shaders/a.wgsl"]) {
    assert.ok(isReadAtRunTime(path), path);
  }
  for (const path of ["engine/worker_test.ts", "engine/coworker.ts", "engine/jobs.ts"]) {
    assert.ok(!isReadAtRunTime(path), path);
  }
});

Deno.test("embeddedPaths() gives paths that are there, the bundled model among them", async () => {
  const paths = await embeddedPaths();
  assert.ok(paths.includes("models/bundled"));
  for (const path of paths) await Deno.stat(new URL(`../${path}`, import.meta.url));
});
