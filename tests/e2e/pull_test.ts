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

Deno.test("generate fetches the model that a name stands for, pull has nothing left to do, rm frees it", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const files = await readFiles(BUNDLED);
    await using hub = new FakeHub({ "some-org/tiny": files, "Tongyi-MAI/Z-Image-Turbo": files });
    await Deno.writeTextFile(join(folder, "models.json"), `{"mine":{"model":"some-org/tiny"}}`);
    const run = async (...args: string[]) => {
      const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--no-check", CLI, ...args],
        env: {
          HF_ENDPOINT: hub.endpoint,
          HF_HOME: folder,
          HF_HUB_OFFLINE: "",
          DENOISE_CONFIG: folder,
        },
      }).output();
      const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      assert.equal(code, 0, err);
      return { out: out!, err: err! };
    };
    const image = join(folder, "circle.png");
    const make = ["generate", "--prompt", "a red circle", "--num-inference-steps", "2"];
    const { err } = await run(...make, "--model-path", "mine", "--output", image);
    assert.match(err, /Fetching some-org\/tiny from the hub/);
    assert.ok((await Deno.stat(image)).size > 1000);
    const asked = hub.filesSeen.length;
    assert.match((await run("pull", "some-org/tiny")).out, /models--some-org--tiny/);
    assert.equal(hub.filesSeen.length, asked);
    assert.match((await run("list")).out, /^some-org\/tiny +\d+\.\d MB .* main 01234567$/m);
    assert.match((await run("rm", "some-org/tiny")).out, /^Removed some-org\/tiny: \d/);
    const named = await run("pull", "z-image-turbo:bf16");
    assert.match(
      named.err,
      /^Z-Image-Turbo in BF16, licence Apache-2\.0\nFetching \d+ files of Tongyi/,
    );
    assert.match((await run("list")).out, /^Tongyi-MAI\/Z-Image-Turbo .* z-image-turbo$/m);
    assert.match((await run("rm", "z-image-turbo")).out, /^Removed Tongyi-MAI\/Z-Image-Turbo: \d/);
    assert.match((await run("list")).out, /^bundled +comes with the program/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
