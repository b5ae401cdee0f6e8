/** The start script of a kit, on one that holds a script in place of Deno. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { join } from "node:path";

const SCRIPT = fileURLToPath(new URL("./run.sh", import.meta.url));

/** Runs a command and gives what it printed. */
async function run(command: string, args: string[], cwd: string): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(command, { args, cwd }).output();
  const decoder = new TextDecoder();
  assert.ok(success, decoder.decode(stderr));
  return decoder.decode(stdout);
}

Deno.test({
  name:
    "a kit's start script unpacks what is packed once, and starts the report with the same flags",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const kit = await Deno.makeTempDir({ prefix: "gpu kit " });
    try {
      await Deno.copyFile(SCRIPT, join(kit, "run.sh"));
      await Deno.writeTextFile(
        join(kit, "deno"),
        '#!/bin/sh\nprintf "%s\\n" "$@" "$DENOISE_DENO" "$DENOISE_DAWN" "$DENO_WEBGPU_BACKEND"\n',
      );
      await Deno.writeTextFile(join(kit, "dawn.node"), "an addon");
      await run("xz", ["deno", "dawn.node"], kit);
      for (let start = 0; start < 2; start++) {
        const lines = (await run("sh", [join(kit, "run.sh"), "--out", "a b"], kit)).split("\n");
        const unpacked = join(await Deno.realPath(kit), "unpacked");
        assert.deepEqual(lines.slice(0, 3), ["run", "-A", "--quiet"]);
        assert.deepEqual(lines.slice(-7), [
          join(await Deno.realPath(kit), "report.js"),
          ...["--out", "a b"],
          ...[join(unpacked, "deno"), join(unpacked, "dawn"), "vulkan", ""],
        ]);
        const addon = join(unpacked, "dawn", "dist", "linux-x64", "dawn.node");
        assert.equal(await Deno.readTextFile(addon), "an addon");
        // What is unpacked is not packed again.
        await Deno.writeTextFile(join(kit, "dawn.node.xz"), "damaged");
      }
    } finally {
      await Deno.remove(kit, { recursive: true });
    }
  },
});
