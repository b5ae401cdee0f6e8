import { strict as assert } from "node:assert";
import { join } from "node:path";
import { componentFolder, hasIndex, readModelIndex } from "./model_index.ts";

/** Runs a test on a folder whose model_index.json holds a value. */
async function withIndex(json: unknown, use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const text = typeof json === "string" ? json : JSON.stringify(json);
    await Deno.writeTextFile(join(folder, "model_index.json"), text);
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("readModelIndex() separates components from settings", async () => {
  const json = {
    _class_name: "WanPipeline",
    _diffusers_version: "0.35.0",
    _name_or_path: "somewhere",
    boundary_ratio: 0.9,
    feature_extractor: [null, null],
    layers: [10, 20],
    scheduler: ["diffusers", "UniPCMultistepScheduler"],
    text_encoder: ["transformers", "UMT5EncoderModel"],
    unet: ["diffusers", "UNet2DConditionModel"],
    transformer_2: [null, null],
    vae: ["diffusers", "AutoencoderKLWan"],
  };
  await withIndex(json, async (folder) => {
    const index = await readModelIndex(folder);
    assert.equal(index.folder, folder);
    assert.equal(index.className, "WanPipeline");
    assert.deepEqual([...index.components], [
      ["scheduler", {
        library: "diffusers",
        className: "UniPCMultistepScheduler",
        folder: "scheduler",
      }],
      ["text_encoder", {
        library: "transformers",
        className: "UMT5EncoderModel",
        folder: "text_encoder",
      }],
      ["transformer", { library: "diffusers", className: "UNet2DConditionModel", folder: "unet" }],
      ["vae", { library: "diffusers", className: "AutoencoderKLWan", folder: "vae" }],
    ]);
    assert.deepEqual(index.settings, {
      _name_or_path: "somewhere",
      boundary_ratio: 0.9,
      layers: [10, 20],
    });
  });
});

Deno.test("readModelIndex() reads the index of a modular pipeline alone, and calls its components as others", async () => {
  await withIndex("{}", async (folder) => {
    await Deno.remove(join(folder, "model_index.json"));
    const from = (subfolder: string) => ({ pretrained_model_name_or_path: "org/name", subfolder });
    const json = {
      _class_name: "AnimaModularPipeline",
      _blocks_class_name: "AnimaAutoBlocks",
      text_conditioner: ["diffusers", "AnimaTextConditioner", from("text_conditioner")],
      t5_tokenizer: ["transformers", "T5TokenizerFast", from("t5_tokenizer")],
      // Written before its parts were loaded.
      text_encoder: [null, null, {
        ...from("text_encoder"),
        type_hint: ["transformers", "Qwen3Model"],
      }],
      prompt_upsampler: ["transformers", "Qwen3_5ForConditionalGeneration", from("")],
      guider: [null, null, {}],
    };
    await Deno.writeTextFile(join(folder, "modular_model_index.json"), JSON.stringify(json));
    assert.ok(await hasIndex(folder));
    const { className, components } = await readModelIndex(folder);
    assert.equal(className, "AnimaModularPipeline");
    assert.deepEqual([...components].map(([name, { folder }]) => [name, folder]), [
      ["text_encoder_2", "text_conditioner"],
      ["tokenizer_2", "t5_tokenizer"],
      ["text_encoder", "text_encoder"],
    ]);
  });
});

Deno.test("readModelIndex() refuses values of the wrong kind, naming the key", async () => {
  const cases: [unknown, RegExp][] = [
    [{}, /_class_name must be the name of a pipeline class, and it is missing$/],
    [{ _class_name: "" }, /_class_name must be .*, and it is ""$/],
    [{ _class_name: ["a", "B"] }, /_class_name must be .*, and it is \["a","B"\]$/],
    [{ _class_name: "P", _diffusers_version: 1 }, /_diffusers_version must be a text, and it is 1/],
    [{ _class_name: "P", vae: ["diffusers", null] }, /component "vae" must have a library and a/],
    [{ _class_name: "P", vae: ["diffusers", 3] }, /component "vae" must have a library and a/],
    [[], /it must hold a JSON object, and it holds an array$/],
  ];
  for (const [json, message] of cases) {
    await withIndex(json, async (folder) => {
      await assert.rejects(readModelIndex(folder), (error) => {
        assert.ok(error instanceof TypeError, `${error}`);
        assert.match(error.message, message);
        assert.ok(error.message.startsWith(`Cannot read ${join(folder, "model_index.json")}: `));
        return true;
      });
    });
  }
});

Deno.test("readModelIndex() refuses component names that lead out of the folder", async () => {
  for (
    const name of ["../vae", "..", ".", "a/b", "a\\b", "/etc", "C:\\x", "", "vae\0", ".hidden"]
  ) {
    await withIndex({ _class_name: "P", [name]: ["diffusers", "A"] }, async (folder) => {
      await assert.rejects(readModelIndex(folder), /is not a plain folder name$/, name);
    });
  }
});

Deno.test("readModelIndex() refuses a missing, broken, huge or misplaced file", async () => {
  await withIndex("{", async (folder) => {
    await assert.rejects(readModelIndex(folder), SyntaxError);
    const path = join(folder, "model_index.json");
    await Deno.writeTextFile(path, " ".repeat(2 ** 20 + 1));
    await assert.rejects(readModelIndex(folder), /it has 1048577 bytes, and at most 1048576/);
    await Deno.remove(path);
    await assert.rejects(readModelIndex(folder), Deno.errors.NotFound);
    await Deno.mkdir(path);
    await assert.rejects(readModelIndex(folder), /model_index\.json: it is a folder$/);
  });
});

Deno.test("componentFolder() gives the folder, or says which is missing and why", async () => {
  const json = { _class_name: "P", vae: ["diffusers", "Vae"], net: ["diffusers", "Net"] };
  await withIndex(json, async (folder) => {
    const index = await readModelIndex(folder);
    await Deno.mkdir(join(folder, "vae"));
    assert.equal(await componentFolder(index, "vae"), join(folder, "vae"));
    await assert.rejects(
      componentFolder(index, "net"),
      /"net" \(Net\) from .*net: it does not exist, .*; the download may be incomplete$/,
    );
    await Deno.writeTextFile(join(folder, "net"), "");
    await assert.rejects(componentFolder(index, "net"), /it is not a folder/);
    await assert.rejects(componentFolder(index, "../x"), /does not name it; it names vae, net$/);
  });
});

Deno.test({
  name: "componentFolder() follows a symbolic link and stops at a circle of them",
  // Making links needs a privilege on Windows.
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const json = { _class_name: "P", vae: ["diffusers", "Vae"], net: ["diffusers", "Net"] };
    await withIndex(json, async (folder) => {
      const index = await readModelIndex(folder);
      await Deno.mkdir(join(folder, "elsewhere"));
      await Deno.symlink("elsewhere", join(folder, "vae"));
      await Deno.symlink("net", join(folder, "net"));
      assert.equal(await componentFolder(index, "vae"), join(folder, "vae"));
      await assert.rejects(componentFolder(index, "net"), /symbolic links lead in a circle/);
    });
  },
});
