import assert from "node:assert/strict";
import { join } from "node:path";
import { Golden } from "../../tests/support/golden.ts";
import { encodeGguf } from "../../tests/support/gguf.ts";
import { withFolder } from "../../tests/support/safetensors.ts";
import { WAN_FILES } from "../families/wan/layouts.ts";
import { Z_IMAGE_FILES } from "../families/z_image/layouts.ts";
import type { ModelParts } from "./model_parts.ts";
import { openModelFiles } from "./open_model.ts";

const FILES = new Golden("single_files/wan").folder;
const FOLDER = new Golden("wan/pipeline-t2v").folder;
const ALL = join(FILES, "all.safetensors");
const TRANSFORMER = join(FILES, "transformer.gguf");
const ENCODER = join(FILES, "text_encoder.gguf");

const open = (model: string, parts: ModelParts = {}) =>
  openModelFiles(model, parts, [Z_IMAGE_FILES, WAN_FILES]);

/** Runs with a cache of the hub that has `Wan-AI/Wan2.1-T2V-1.3B-Diffusers`, or nothing. */
async function withCache(isThere: boolean, use: () => Promise<void>): Promise<void> {
  const cache = await Deno.makeTempDir();
  const before = Deno.env.get("HF_HUB_CACHE");
  try {
    if (isThere) {
      const repository = join(cache, "models--Wan-AI--Wan2.1-T2V-1.3B-Diffusers");
      const commit = "0".repeat(40);
      await Deno.mkdir(join(repository, "refs"), { recursive: true });
      await Deno.writeTextFile(join(repository, "refs/main"), commit);
      await Deno.mkdir(join(repository, "snapshots"));
      await Deno.symlink(FOLDER, join(repository, "snapshots", commit), { type: "dir" });
    }
    Deno.env.set("HF_HUB_CACHE", cache);
    await use();
  } finally {
    if (before === undefined) Deno.env.delete("HF_HUB_CACHE");
    else Deno.env.set("HF_HUB_CACHE", before);
    await Deno.remove(cache, { recursive: true });
  }
}

Deno.test("openModelFiles() says which parts are missing and with which flags they are named", () =>
  withCache(false, async () => {
    const cases: [string, ModelParts, RegExp][] = [
      [
        TRANSFORMER,
        {},
        /it holds a Wan transformer, and the text encoder, autoencoder and tokenizer are missing; name each with parts.textEncoder, parts.vae and parts.tokenizer: a path or a hub id, such as Wan-AI\/Wan2\.1-T2V-1\.3B-Diffusers$/,
      ],
      [ALL, {}, /and the tokenizer is missing; name it with parts.tokenizer: a path/],
      [TRANSFORMER, { textEncoder: ENCODER, tokenizer: FOLDER }, /the autoencoder is missing/],
      [ENCODER, {}, /it holds a UMT5 text encoder, and no transformer; give the file of/],
    ];
    for (const [model, parts, message] of cases) await assert.rejects(open(model, parts), message);
  }));

Deno.test("openModelFiles() takes what a file lacks from a model in the cache that goes with it", () =>
  withCache(true, async () => {
    using files = await open(TRANSFORMER);
    assert.equal(files.className, "WanPipeline");
    const { path } = await files.component("vae", ["AutoencoderKLWan"]);
    assert.match(path, /models--Wan-AI--Wan2\.1-T2V-1\.3B-Diffusers.*vae.config\.json$/);
    assert.equal(
      (await files.component("transformer", ["WanTransformer3DModel"])).path,
      TRANSFORMER,
    );
    assert.equal((await files.tokenizer()).encode("a red circle").at(-1), 1);
    assert.equal((await files.scheduler()).config["flow_shift"], 3);
  }));

Deno.test("openModelFiles() puts named parts in place of a folder's, from files and folders", async () => {
  using files = await open(FOLDER, { transformer: TRANSFORMER, textEncoder: FOLDER, vae: ALL });
  const transformer = await files.component("transformer", ["WanTransformer3DModel"]);
  assert.equal(transformer.config["num_attention_heads"], 2);
  assert.ok(transformer.openWeights().has("blocks.0.attn1.to_q.weight"));
  const encoder = await files.component("text_encoder", ["UMT5EncoderModel"]);
  assert.equal(encoder.path, join(FOLDER, "text_encoder", "config.json"));
  assert.ok(encoder.openWeights().has("shared.weight"));
  assert.equal((await files.component("vae", ["AutoencoderKLWan"])).config["z_dim"], 16);
  assert.equal((await files.scheduler()).path, join(FOLDER, "scheduler", "scheduler_config.json"));
  await assert.rejects(
    files.component("vae", ["AutoencoderKL"]),
    /as the vae of ".*": its class is AutoencoderKLWan, and AutoencoderKL is needed/,
  );
});

Deno.test("openModelFiles() refuses parts that are something else, are not there, or hold nothing known", () =>
  withCache(false, async () => {
    const unknown = encodeGguf({
      tensors: [["some.weight", { shape: [1], data: new Uint8Array(4) }]],
    });
    await withFolder({ "unknown.gguf": unknown, "empty.gguf": encodeGguf({}) }, async (folder) => {
      const cases: [string, ModelParts, RegExp][] = [
        [FOLDER, { vae: TRANSFORMER }, /as the autoencoder: it holds a Wan transformer$/],
        [
          FOLDER,
          { textEncoder: join(folder, "none") },
          /that parts.textEncoder names: it does not/,
        ],
        [FOLDER, { vae: folder }, /config\.json/],
        [FOLDER, { tokenizer: TRANSFORMER }, /as the tokenizer: it holds none$/],
        [join(folder, "unknown.gguf"), {}, /its 1 tensors, such as "some\.weight", are of no/],
        [join(folder, "empty.gguf"), {}, /its 0 tensors, such as none, are of no model/],
        [
          join(folder, "unknown.gguf"),
          {},
          /it knows a Z-Image transformer, a ControlNet for Z-Image, a Qwen3 text encoder/,
        ],
      ];
      for (const [model, parts, message] of cases) {
        await assert.rejects(async () => {
          using files = await open(model, parts);
          await files.tokenizer();
        }, message);
      }
    });
  }));

Deno.test("openModelFiles() knows a part's class by model_index.json or model_type where its config names none", () => {
  const index = { _class_name: "WanPipeline", text_encoder: ["transformers", "UMT5EncoderModel"] };
  return withFolder({
    "model/model_index.json": JSON.stringify(index),
    "model/text_encoder/config.json": "{}",
    "part/config.json": JSON.stringify({ model_type: "umt5" }),
    "none/config.json": "{}",
  }, async (folder) => {
    const classOf = async (name: string) => {
      const parts = {
        textEncoder: join(folder, name),
        vae: join(FOLDER, "vae"),
        tokenizer: FOLDER,
      };
      using files = await open(TRANSFORMER, parts);
      return await files.component("text_encoder", ["UMT5EncoderModel"]);
    };
    await classOf("model");
    await classOf("part");
    await assert.rejects(classOf("none"), /its class is component of an unnamed class, and UMT5/);
  });
});
