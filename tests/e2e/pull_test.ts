/** From a hub id to an image: `generate --model-path org/name` with nothing in the cache. */
import assert from "node:assert/strict";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { FakeHub } from "../fakes/hub.ts";
import { DENO_RUN } from "./server_process.ts";

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

/** Runs the program on a hub of the test's own. */
async function runOn(hub: FakeHub, folder: string, args: readonly string[]) {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...DENO_RUN, CLI, ...args],
    env: {
      HF_ENDPOINT: hub.endpoint,
      HF_HOME: folder,
      HF_HUB_OFFLINE: "",
      DENOISE_CONFIG: folder,
    },
  }).output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code, out: out!, err: err! };
}

Deno.test("pull fetches a ControlNet by its name and one file of a repository, and says what it knows no name of", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const weights = new Uint8Array(1000);
    const name = "qwen-image-controlnet-union";
    await using hub = new FakeHub({
      "InstantX/Qwen-Image-ControlNet-Union": {
        "config.json": "{}",
        "diffusion_pytorch_model.safetensors": weights,
        "conds/pose.png": weights,
      },
      "org/files": { "a.safetensors": weights, "b.safetensors": weights },
    });
    const run = (...args: string[]) => runOn(hub, folder, args);
    const named = await run("pull", name);
    assert.equal(named.code, 0, named.err);
    assert.match(
      named.err,
      /^qwen-image-controlnet-union, a ControlNet for Qwen-Image, licence Apache-2\.0\nFetching InstantX\/.*about 3\.5 GB\n.* --controlnet qwen-/,
    );
    assert.ok((await Deno.stat(join(named.out.trim(), "config.json"))).isFile);
    assert.equal((await run("pull", "org/files:b.safetensors")).code, 0);
    assert.ok(hub.filesSeen.some((file) => file.endsWith("b.safetensors")));
    assert.ok(!hub.filesSeen.some((file) => /pose\.png|a\.safetensors$/.test(file)));
    const refused = await run("pull", name, "--revision", "main");
    assert.deepEqual([refused.code, refused.out], [2, ""]);
    const unknown = await run("pull", "z-imag-turbo");
    assert.equal(unknown.code, 2);
    assert.match(unknown.err, /neither a name that "denoise list --all" shows nor a hub id/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("generate fetches the model that a name stands for, pull has nothing left to do, rm frees it", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const files = await readFiles(BUNDLED);
    await using hub = new FakeHub({ "some-org/tiny": files, "Tongyi-MAI/Z-Image-Turbo": files });
    await Deno.writeTextFile(join(folder, "models.json"), `{"mine":{"model":"some-org/tiny"}}`);
    const run = async (...args: string[]) => {
      const { code, ...said } = await runOn(hub, folder, args);
      assert.equal(code, 0, said.err);
      return said;
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
