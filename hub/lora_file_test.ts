import { strict as assert } from "node:assert";
import { join } from "node:path";
import { FakeHub } from "../tests/fakes/hub.ts";
import { chooseLora, obtainLora, readHubLora } from "./lora_file.ts";

const REPOSITORIES = {
  "org/one": { "sub/style.safetensors": "style", "adapter_config.json": "{}", "photo.png": "p" },
  "org/usual": {
    "adapter_model.safetensors": "lora",
    "adapter_config.json": "{}",
    "optimizer.safetensors": "large",
  },
  "org/many": { "a.safetensors": "a", "x/b.safetensors": "b", "x/adapter_config.json": "{}" },
  "org/none": { "model.gguf": "m" },
};

function withHub(use: (hub: FakeHub, options: object, folder: string) => Promise<void>) {
  return async () => {
    const folder = await Deno.makeTempDir();
    await using hub = new FakeHub(REPOSITORIES);
    const settings = { endpoint: hub.endpoint, isOffline: false, cacheFolder: join(folder, "hub") };
    try {
      await use(hub, { settings, firstWaitMs: 1 }, folder);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  };
}

Deno.test(
  "obtainLora() fetches the one LoRA of a repository, once",
  withHub(async (hub, options) => {
    let pulls = 0;
    for (let i = 0; i < 2; i++) {
      const file = await obtainLora("org/usual", options, () => pulls++);
      assert.equal(await Deno.readTextFile(file), "lora");
    }
    assert.equal(pulls, 1);
    assert.ok(!hub.filesSeen.some((path) => path.includes("optimizer")));
  }),
);

Deno.test(
  "obtainLora() fetches the file that is named, and PEFT's settings beside it",
  withHub(async (hub, options) => {
    const file = await obtainLora("org/many:x/b.safetensors", options);
    assert.equal(await Deno.readTextFile(file), "b");
    assert.equal(hub.filesSeen.length, 2);
    const other = await obtainLora("org/many:a.safetensors", options);
    assert.equal(await Deno.readTextFile(other), "a");
  }),
);

Deno.test(
  "obtainLora() says what a repository has when none, or no single one, is meant",
  withHub(async (_, options) => {
    await assert.rejects(
      obtainLora("org/many", options),
      /several files; name one as org\/many:a\.safetensors, of a\.safetensors, x\/b\.safetensors/,
    );
    await assert.rejects(obtainLora("org/many:c.safetensors", options), /no c\.safetensors/);
    await assert.rejects(obtainLora("org/none", options), /it has no \.safetensors file/);
  }),
);

Deno.test(
  "obtainLora() takes files and folders before hub ids",
  withHub(async (hub, options, folder) => {
    await Deno.writeTextFile(join(folder, "a.safetensors"), "a");
    const file = join(folder, "a.safetensors");
    assert.equal(await obtainLora(file, options), file);
    assert.equal(await obtainLora(folder, options), file);
    await Deno.writeTextFile(join(folder, "b.safetensors"), "b");
    await assert.rejects(obtainLora(folder, options), {
      name: "TypeError",
      message: /it has 2 \.safetensors files, a\.safetensors, b\.safetensors; name one/,
    });
    await Deno.writeTextFile(join(folder, "pytorch_lora_weights.safetensors"), "usual");
    assert.match(await obtainLora(folder, options), /pytorch_lora_weights/);
    await assert.rejects(obtainLora(join(folder, "c.safetensors"), options), {
      name: "NotFound",
      message: /it does not exist; give a \.safetensors, .*, a folder that has one, or a hub id/,
    });
    await assert.rejects(obtainLora(" ", options), TypeError);
    assert.equal(hub.seen.length, 0);
  }),
);

Deno.test("readHubLora() takes ids and files in them, and nothing that leads elsewhere", () => {
  assert.deepEqual(readHubLora("org/name"), { id: "org/name" });
  assert.deepEqual(readHubLora("org/name:x/a.safetensors"), {
    id: "org/name",
    file: "x/a.safetensors",
  });
  const others = ["", "name", "org/a.safetensors", "org/name:", "org/name:a.gguf", "/org/name"];
  for (
    const text of [
      ...others,
      "org/name:../a.safetensors",
      "../x:a.safetensors",
      "org/n:/a.safetensors",
    ]
  ) {
    assert.equal(readHubLora(text), undefined, text);
  }
});

Deno.test("chooseLora() takes the settings of the same folder only", () => {
  const files = Object.keys(REPOSITORIES["org/one"]).map((path) => ({ path, size: 1, hash: "" }));
  const chosen = chooseLora("org/one", files as never);
  assert.deepEqual(chosen.map(({ path }) => path), ["sub/style.safetensors"]);
});
