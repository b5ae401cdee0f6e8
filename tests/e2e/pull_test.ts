/** From a hub id to an image: `generate --model-path org/name` with nothing in the cache. */
import assert from "node:assert/strict";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { FakeHub } from "../fakes/hub.ts";

const CLI = fileURLToPath(new URL("../../cli.ts", import.meta.url));
const BUNDLED = fileURLToPath(new URL("../../models/bundled", import.meta.url));

async function readFiles(folder: string, files: Record<string, Uint8Array<ArrayBuffer>> = {}) {
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) await readFiles(path, files);
    else files[relative(BUNDLED, path).replaceAll("\\", "/")] = await Deno.readFile(path);
  }
  return files;
}

Deno.test("generate fetches the model that a hub id names, pull has nothing left to do, rm frees it", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await using hub = new FakeHub({ "some-org/tiny": await readFiles(BUNDLED) });
    const run = async (...args: string[]) => {
      const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--no-check", CLI, ...args],
        env: { HF_ENDPOINT: hub.endpoint, HF_HOME: folder, HF_HUB_OFFLINE: "" },
      }).output();
      const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      assert.equal(code, 0, err);
      return { out: out!, err: err! };
    };
    const image = join(folder, "circle.png");
    const make = ["generate", "--prompt", "a red circle", "--num-inference-steps", "2"];
    const { err } = await run(...make, "--model-path", "some-org/tiny", "--output", image);
    assert.match(err, /Fetching some-org\/tiny from the hub/);
    assert.ok((await Deno.stat(image)).size > 1000);
    const asked = hub.filesSeen.length;
    assert.match((await run("pull", "some-org/tiny")).out, /models--some-org--tiny/);
    assert.equal(hub.filesSeen.length, asked);
    assert.match((await run("list")).out, /^some-org\/tiny +\d+\.\d MB .* main 01234567$/m);
    assert.match((await run("rm", "some-org/tiny")).out, /^Removed some-org\/tiny: \d/);
    assert.match((await run("list")).out, /^Nothing is in /);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
