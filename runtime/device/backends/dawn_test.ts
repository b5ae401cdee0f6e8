import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bringRuntime, createGpu } from "./dawn.ts";

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

Deno.test("bringRuntime() links the program that runs, again where it is another one now", () => {
  const folder = mkdtempSync(join(tmpdir(), "denoise-dawn-"));
  try {
    const [first, second, link] = ["first", "second", "node.exe"].map((name) => join(folder, name));
    writeFileSync(first!, "1");
    writeFileSync(second!, "2");
    for (const program of [first!, first!, second!]) {
      bringRuntime(folder, program);
      assert.equal(readFileSync(link!, "utf8"), readFileSync(program, "utf8"));
      writeFileSync(program, `${program} of another version`);
      assert.equal(readFileSync(link!, "utf8"), readFileSync(program, "utf8"), "a link, no copy");
    }
    assert.throws(
      () => bringRuntime(folder, join(folder, "none")),
      /Cannot use Dawn: .*node\.exe cannot be made a hard link to .*none.*one drive/,
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});
