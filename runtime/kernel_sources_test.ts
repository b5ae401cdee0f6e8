import assert from "node:assert/strict";
import { join } from "node:path";
import { dumpKernels } from "./kernel_sources.ts";
import { BASELINE_TARGET } from "./target.ts";

Deno.test("dumpKernels() writes each kernel, and says which variants nothing raced", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const files = await dumpKernels(BASELINE_TARGET, folder);
    const read = (path: string) => Deno.readTextFile(join(folder, path));
    const [software, gpu] = await Promise.all([
      read("softmax/row/softmax_row.1.wgsl"),
      read("softmax/group/softmax_group.1.wgsl"),
    ]);
    assert.match(software, /^\/\/ Variant "row": raced on Mesa's software adapter$/m);
    assert.match(gpu, /^\/\/ Variant "group": raced on no hardware of its class yet$/m);
    assert.match(gpu, /@compute @workgroup_size\(/);
    let written = 0;
    for (const op of Deno.readDirSync(folder)) written += countFiles(join(folder, op.name));
    assert.equal(written, files);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

function countFiles(folder: string): number {
  return [...Deno.readDirSync(folder)].reduce(
    (sum, { name, isFile }) => sum + (isFile ? 1 : countFiles(join(folder, name))),
    0,
  );
}
