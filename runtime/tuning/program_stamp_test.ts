import assert from "node:assert/strict";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { programStamp } from "./tuning_file.ts";

Deno.test("programStamp() changes with a file beside it or below, and is none of what came over the network", async () => {
  const root = await Deno.makeTempDir();
  try {
    await Deno.mkdir(join(root, "runtime", "tuning"), { recursive: true });
    await Deno.mkdir(join(root, "runtime", "shaders"));
    const shader = join(root, "runtime", "shaders", "copy.wgsl");
    const module = join(root, "runtime", "tuning", "tuning_file.ts");
    await Deno.writeTextFile(shader, "fn a() {}");
    await Deno.writeTextFile(module, "");
    const stamp = () => programStamp(pathToFileURL(module).href);
    const first = await stamp();
    assert.equal(await stamp(), first);
    await Deno.utime(shader, 1, 1);
    const touched = await stamp();
    assert.notEqual(touched, first);
    await Deno.writeTextFile(join(root, "runtime", "shaders", "copy_test.ts"), "");
    assert.equal(await stamp(), touched);
    await Deno.rename(shader, join(root, "runtime", "shaders", "move.wgsl"));
    assert.notEqual(await stamp(), touched);
    const packed = pathToFileURL(join(root, "report.js")).href;
    await Deno.writeTextFile(join(root, "report.js"), "1");
    const whole = await programStamp(packed);
    await Deno.writeTextFile(join(root, "report.js"), "12");
    assert.notEqual(await programStamp(packed), whole);
    assert.equal(
      await programStamp("https://denoise.example/runtime/tuning/tuning_file.ts"),
      undefined,
    );
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
