import assert from "node:assert/strict";
import { join } from "node:path";
import { ownModelsFile, readOwnModels } from "./own_models.ts";

async function read(text: string) {
  const path = await Deno.makeTempFile({ suffix: ".json" });
  try {
    await Deno.writeTextFile(path, text);
    return await readOwnModels(path);
  } finally {
    await Deno.remove(path);
  }
}

Deno.test("readOwnModels() gives a model and parts by the names of their flags", async () => {
  const models = await read(JSON.stringify({
    "My-Wan": {
      "model": "/w/high.gguf",
      "transformer-2": "/w/low.gguf",
      "text-encoder": "org/umt5",
    },
  }));
  assert.deepEqual(Object.fromEntries(models), {
    "my-wan": {
      model: "/w/high.gguf",
      parts: { transformer2: "/w/low.gguf", textEncoder: "org/umt5" },
    },
  });
  assert.equal((await readOwnModels("/no/such/file.json")).size, 0);
});

Deno.test("readOwnModels() refuses what is no entry, with its name", async () => {
  for (
    const text of [
      `{"a/b":{"model":"x"}}`,
      `{"a":{}}`,
      `{"a":{"model":"x","weights":"y"}}`,
      `{"a":"x"}`,
    ]
  ) {
    await assert.rejects(read(text), /Cannot read .*: the entry "a(\/b)?" is no model, /, text);
  }
  await assert.rejects(read("{"), SyntaxError);
});

Deno.test("ownModelsFile() goes by DENOISE_CONFIG, XDG_CONFIG_HOME and the home folder", () => {
  const at = (env: Record<string, string>) => ownModelsFile((name) => env[name]);
  assert.equal(at({ DENOISE_CONFIG: "/d", HOME: "/h" }), join("/d", "models.json"));
  assert.equal(at({ XDG_CONFIG_HOME: "/x", HOME: "/h" }), join("/x", "denoise", "models.json"));
  assert.equal(at({ HOME: "/h" }), join("/h", ".config", "denoise", "models.json"));
  assert.equal(at({}), undefined);
});
