import assert from "node:assert/strict";
import { join } from "node:path";
import { FakeHub } from "../tests/fakes/hub.ts";
import { CONTROLNETS, IP_ADAPTERS } from "./catalogue_parts.ts";
import type { PartName } from "./model_index.ts";
import { obtainModel, obtainPart } from "./obtain_model.ts";

const FILES = { "model_index.json": "{}", "vae/model.safetensors": "weights" };

Deno.test("obtainModel() fetches a hub id once, and the rest of one that is not whole", async () => {
  const cacheFolder = await Deno.makeTempDir();
  try {
    await using hub = new FakeHub({ "some-org/model": FILES });
    const settings = { endpoint: hub.endpoint, isOffline: false, cacheFolder };
    let pulls = 0;
    const obtain = () => obtainModel("some-org/model", { settings }, () => pulls++);
    const path = await obtain();
    assert.equal(await Deno.readTextFile(join(path, "vae/model.safetensors")), "weights");
    await obtain();
    assert.equal(pulls, 1);
    await Deno.remove(join(path, "model_index.json"));
    await obtain();
    assert.equal(pulls, 2);
    assert.equal(hub.filesSeen.length, 2, "blobs that were there are fetched again");
  } finally {
    await Deno.remove(cacheFolder, { recursive: true });
  }
});

Deno.test("obtainModel() leaves out what comes from elsewhere, under the repository's own names, and fetches it once it does not", async () => {
  const cacheFolder = await Deno.makeTempDir();
  try {
    const component = ["diffusers", "Ideogram4Transformer2DModel"];
    await using hub = new FakeHub({
      "some-org/pair": {
        "model_index.json": JSON.stringify({
          _class_name: "Ideogram4Pipeline",
          transformer: component,
          unconditional_transformer: component,
        }),
        "transformer/model.safetensors": "seeing",
        "unconditional_transformer/model.safetensors": "blind",
      },
    });
    const settings = { endpoint: hub.endpoint, isOffline: false, cacheFolder };
    let pulls = 0;
    const obtain = (given: readonly PartName[]) =>
      obtainModel("some-org/pair", { settings, given }, () => pulls++);
    const folders = (path: string) => [...Deno.readDirSync(path)].map(({ name }) => name).sort();
    const path = await obtain(["transformer2"]);
    assert.deepEqual(folders(path), ["model_index.json", "transformer"]);
    await obtain(["transformer2"]);
    assert.equal(pulls, 1);
    await obtain([]);
    await obtain([]);
    assert.equal(pulls, 2);
    assert.deepEqual(folders(path), [
      ...["model_index.json", "transformer", "unconditional_transformer"],
    ]);
  } finally {
    await Deno.remove(cacheFolder, { recursive: true });
  }
});

Deno.test("obtainModel() fetches nothing for what is no hub id", async () => {
  await using hub = new FakeHub({});
  const settings = { endpoint: hub.endpoint, isOffline: false, cacheFolder: "nowhere" };
  await assert.rejects(obtainModel("./no/such/folder", { settings }), /it does not exist/);
  assert.equal(hub.seen.length, 0);
});

Deno.test("obtainModel() and obtainPart() fetch the named file or component, and nothing else", async () => {
  const cacheFolder = await Deno.makeTempDir();
  try {
    await using hub = new FakeHub({
      "org/all": FILES,
      "org/files": { "q/a.gguf": "a", "q/b.gguf": "b" },
    });
    const settings = { endpoint: hub.endpoint, isOffline: false, cacheFolder };
    let pulls = 0;
    const file = await obtainModel("org/files:q/a.gguf", { settings }, () => pulls++);
    assert.equal(await Deno.readTextFile(file), "a");
    for (let i = 0; i < 2; i++) {
      const vae = await obtainPart("org/all", "vae", { settings }, () => pulls++);
      assert.equal(await Deno.readTextFile(join(vae, "model.safetensors")), "weights");
      assert.equal(await obtainPart(vae, "vae", { settings }, () => pulls++), vae);
    }
    const part = await obtainPart("org/files:q/b.gguf", "vae", { settings }, () => pulls++);
    assert.equal(await Deno.readTextFile(part), "b");
    assert.equal(pulls, 3);
    await assert.rejects(obtainPart("org/all", "transformer", { settings }), /none of its 2 files/);
    await assert.rejects(obtainPart("./nowhere", "vae", { settings }), /it does not exist/);
  } finally {
    await Deno.remove(cacheFolder, { recursive: true });
  }
});

Deno.test("obtainModel() of a part in a repository fetches all parts, and what is missing of them", async () => {
  const cacheFolder = await Deno.makeTempDir();
  try {
    await using hub = new FakeHub({
      "org/parts": {
        "q/a-00001-of-00002.gguf": "1",
        "q/a-00002-of-00002.gguf": "2",
        "b.gguf": "b",
      },
    });
    const settings = { endpoint: hub.endpoint, isOffline: false, cacheFolder };
    const obtain = () => obtainModel("org/parts:q/a-00002-of-00002.gguf", { settings });
    for (let i = 0; i < 2; i++) {
      const folder = join(await obtain(), "..");
      const names = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
      assert.deepEqual(names.sort(), ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"]);
      await Deno.remove(join(folder, "a-00001-of-00002.gguf"));
    }
  } finally {
    await Deno.remove(cacheFolder, { recursive: true });
  }
});

Deno.test("obtainPart() fetches a component in one precision", async () => {
  const cacheFolder = await Deno.makeTempDir();
  try {
    await using hub = new FakeHub({
      "org/half": {
        "vae/config.json": "{}",
        "vae/a.fp16.safetensors": "1",
        "vae/a.bf16.safetensors": "2",
      },
    });
    const settings = { endpoint: hub.endpoint, isOffline: false, cacheFolder };
    const vae = await obtainPart("org/half", "vae", { settings });
    const names = await Array.fromAsync(Deno.readDir(vae), ({ name }) => name);
    assert.deepEqual(names.sort(), ["a.bf16.safetensors", "config.json"]);
  } finally {
    await Deno.remove(cacheFolder, { recursive: true });
  }
});

Deno.test("obtainPart() finds ControlNets in repositories of their own, by their names, and within models", async () => {
  const cacheFolder = await Deno.makeTempDir();
  try {
    const weights = "diffusion_pytorch_model.safetensors";
    const { name, source } = CONTROLNETS[0]!;
    await using hub = new FakeHub({
      [source]: { "config.json": "{}", [weights]: "own", "assets/pose.png": "large" },
      "org/model": { "model_index.json": "{}", [`controlnet/${weights}`]: "within" },
    });
    const settings = { endpoint: hub.endpoint, isOffline: false, cacheFolder };
    let pulls = 0;
    for (
      const [named, text] of [[name, "own"], [source, "own"], ["org/model", "within"]] as const
    ) {
      const path = await obtainPart(named, "controlnet", { settings }, () => pulls++);
      assert.equal(await Deno.readTextFile(join(path, weights)), text);
    }
    assert.equal(pulls, 2);
    assert.ok(hub.filesSeen.every((file) => !file.includes("pose.png")));
  } finally {
    await Deno.remove(cacheFolder, { recursive: true });
  }
});

Deno.test("obtainPart() fetches IP-Adapters with the image encoders that they see by, by their names and as files", async () => {
  const cacheFolder = await Deno.makeTempDir();
  try {
    const encoder = (folder: string) => ({
      [`${folder}/image_encoder/config.json`]: `{"in": "${folder}"}`,
      [`${folder}/image_encoder/model.safetensors`]: folder,
      [`${folder}/image_encoder/pytorch_model.bin`]: "large",
    });
    const files = IP_ADAPTERS.map(({ source }) => source.replace("h94/IP-Adapter:", ""));
    await using hub = new FakeHub({
      "h94/IP-Adapter": {
        ...Object.fromEntries(files.map((file) => [file, file])),
        ...encoder("models"),
        ...encoder("sdxl_models"),
      },
    });
    const settings = { endpoint: hub.endpoint, isOffline: false, cacheFolder };
    const obtain = (named: string) => obtainPart(named, "ipAdapter", { settings });
    const cases = [
      ["ip-adapter_sdxl_vit-h", "sdxl_models/ip-adapter_sdxl_vit-h", "models"],
      ["h94/IP-Adapter:models/ip-adapter-plus_sd15.safetensors", "models/ip-adapter-plus_sd15"],
      ["ip-adapter_sdxl", "sdxl_models/ip-adapter_sdxl", "sdxl_models"],
    ] as const;
    for (const [named, file, folder] of cases) {
      const before = hub.filesSeen.length;
      const path = await obtain(named);
      assert.equal(await Deno.readTextFile(path), `${file}.safetensors`);
      assert.equal(await obtain(named), path);
      const names = hub.filesSeen.slice(before).map((url) => url.split("/resolve/")[1]!)
        .map((url) => url.slice(url.indexOf("/") + 1)).sort();
      const own = ["config.json", "model.safetensors"].map((name) =>
        `${folder}/image_encoder/${name}`
      );
      assert.deepEqual(names, [...folder ? own : [], `${file}.safetensors`].sort(), named);
    }
    await assert.rejects(
      obtain("h94/IP-Adapter"),
      /name one of its files, as h94\/IP-Adapter:FILE/,
    );
  } finally {
    await Deno.remove(cacheFolder, { recursive: true });
  }
});
