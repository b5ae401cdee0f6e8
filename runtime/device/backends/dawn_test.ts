import assert from "node:assert/strict";
import { createGpu } from "./dawn.ts";

/** Entry points by their flags, which give adapters of their names where they are among `working`. */
function creator(working: readonly string[]) {
  const created: string[] = [];
  const create = (flags: readonly string[]) => {
    const name = flags.join();
    created.push(name);
    const adapter = working.includes(name) ? { name } : null;
    return { requestAdapter: () => Promise.resolve(adapter) } as unknown as GPU;
  };
  return { created, create };
}

Deno.test("createGpu() asks for Vulkan first on Windows, for what Dawn prefers where there is none, and nowhere else", async () => {
  const cases = [
    ["windows", ["backend=vulkan", ""], "backend=vulkan", ["backend=vulkan"]],
    ["windows", [""], "", ["backend=vulkan", ""]],
    ["linux", ["backend=vulkan", ""], "", [""]],
  ] as const;
  for (const [os, working, expected, all] of cases) {
    const { created, create } = creator(working);
    const gpu = createGpu(create, os);
    for (let i = 0; i < 2; i++) assert.deepEqual(await gpu.requestAdapter(), { name: expected });
    assert.deepEqual(created, all);
  }
});
