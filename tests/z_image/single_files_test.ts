/** Z-Image from single files: the same images as from the folders that hold the same numbers. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { type ModelParts, openPipeline } from "../../models/mod.ts";
import { sampleBlocks } from "../../runtime/ops/sample_blocks.ts";
import { GGML_TYPES } from "../../runtime/weights/gguf_types.ts";
import type { WeightFormat } from "../../runtime/quantization/block_format.ts";
import { BLOCK_FORMATS, dequantize } from "../../runtime/quantization/formats.ts";
import { encodeGguf, type GgufTensor } from "../support/gguf.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { withFolder } from "../support/safetensors.ts";
import { type Bytes, prefixed, tensorsOf, writeSafetensors } from "../support/single_files.ts";
import { openTestDevice } from "../support/model_run.ts";

const golden = new Golden("z_image/pipeline");
const CALL = golden.call("text");

async function latentsOf(model: string, parts: ModelParts = {}): Promise<Float32Array> {
  const device = await openTestDevice();
  using pipeline = await openPipeline(model, parts);
  try {
    await pipeline.load(device);
    return (await pipeline.generate(textRequest(CALL))).latents;
  } finally {
    device.destroy();
  }
}

/** As the Z-Image team names them: queries, keys and values in one matrix. */
function original(tensors: ReadonlyMap<string, Bytes>): Map<string, Bytes> {
  const result = new Map<string, Bytes>();
  for (const [name, tensor] of tensors) {
    if (/\.to_[kv]\./.test(name)) continue;
    if (!name.includes(".to_q.")) {
      const theirs = name.replace(/^all_(x_embedder|final_layer)\.2-1\./, "$1.")
        .replace(".to_out.0.", ".out.").replace(/\.norm_([qk])\./, ".$1_norm.");
      result.set(theirs, tensor);
      continue;
    }
    const parts = ["q", "k", "v"].map((part) => tensors.get(name.replace("to_q", `to_${part}`))!);
    const [rows, columns] = tensor.shape as [number, number];
    result.set(name.replace(".to_q.", ".qkv."), {
      format: tensor.format,
      shape: [3 * rows, columns],
      bytes: Uint8Array.from(parts.flatMap(({ bytes }) => [...bytes])),
    });
  }
  return result;
}

/** As the first latent diffusion code names an autoencoder of two levels. */
function originalVaeName(name: string): string {
  return name.replace(/mid_block\.resnets\.0/, "mid.block_1")
    .replace(/mid_block\.resnets\.1/, "mid.block_2")
    .replace(/mid_block\.attentions\.0\.group_norm/, "mid.attn_1.norm")
    .replace(/mid_block\.attentions\.0\.to_out\.0/, "mid.attn_1.proj_out")
    .replace(/mid_block\.attentions\.0\.to_([qkv])/, "mid.attn_1.$1")
    .replace(/down_blocks\.(\d)\.resnets\.(\d)/, "down.$1.block.$2")
    .replace(/down_blocks\.(\d)\.downsamplers\.0/, "down.$1.downsample")
    .replace(/up_blocks\.(\d)\.resnets\.(\d)/, (_, level, i) => `up.${1 - level}.block.${i}`)
    .replace(/up_blocks\.(\d)\.upsamplers\.0/, (_, level) => `up.${1 - level}.upsample`)
    .replace("conv_norm_out", "norm_out")
    .replace("conv_shortcut", "nin_shortcut");
}

Deno.test("a file with Z-Image's transformer, text encoder and autoencoder gives diffusers' latents", () =>
  withFolder({}, async (folder) => {
    const text = tensorsOf(`${golden.folder}/text_encoder`);
    const all = new Map([
      ...prefixed("model.diffusion_model.", original(tensorsOf(`${golden.folder}/transformer`))),
      ...prefixed("text_encoders.qwen3_4b.transformer.model.", text),
    ]);
    for (const [name, tensor] of tensorsOf(`${golden.folder}/vae`)) {
      const isProjection = /attentions\.0\.to_.*weight$/.test(name);
      const shape = isProjection ? [...tensor.shape, 1, 1] : tensor.shape;
      all.set(`vae.${originalVaeName(name)}`, { ...tensor, shape });
    }
    const path = join(folder, "z_image_all.safetensors");
    writeSafetensors(path, all);
    const latents = await latentsOf(path, { tokenizer: golden.folder });
    const expected = golden.tensor(CALL.name, "latents");
    assertClose("latents", { shape: expected.shape, data: latents }, expected, 1e-4);
  }));

/** ggml's numbers of types. */
const TYPES = new Map([...GGML_TYPES].map(([number, [name]]) => [name, number]));

/** Formats by what the name of a matrix has in it. */
const MIXED: readonly (readonly [RegExp, WeightFormat])[] = [
  [/layers\.0\.attention\.to_[qkv]/, "q8_0"],
  [/layers\.1\.attention\.to_[qkv]/, "q5_1"],
  [/attention\.to_out/, "q4_0"],
  [/layers\.0\.feed_forward\.w2/, "q3_k"],
  [/layers\.1\.feed_forward\.w2/, "iq4_xs"],
  [/feed_forward\.w[13]/, "q8_0"],
];

Deno.test({
  name:
    "a GGUF file of Z-Image's transformer in mixed types gives the latents of the numbers in it; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: () =>
    withFolder({}, async (folder) => {
      cpSync(golden.folder, folder, { recursive: true });
      const blocks = new Map<string, Bytes>();
      const decoded = new Map<string, Bytes>();
      let seed = 0;
      for (const [name, tensor] of tensorsOf(`${folder}/transformer`)) {
        const format = MIXED.find(([pattern]) => pattern.test(name))?.[1];
        const isWhole = format && tensor.shape[1]! % BLOCK_FORMATS[format].blockElements === 0;
        if (!isWhole) {
          blocks.set(name, tensor);
          decoded.set(name, tensor);
          continue;
        }
        const bytes = sampleBlocks(tensor.shape, format, seed++, tensor.shape[1]! ** -0.5);
        const { shape } = tensor;
        blocks.set(name, { format: format.toUpperCase(), shape, bytes });
        const values = new Uint8Array(dequantize(bytes, format).buffer);
        decoded.set(name, { format: "F32", shape, bytes: values });
      }
      const tensors = [...original(blocks)].map(([name, { format, shape, bytes }]) => {
        const tensor: GgufTensor = { type: TYPES.get(format)!, shape, data: bytes };
        return [name, tensor] as const;
      });
      assert.ok(new Set(tensors.map(([, { type }]) => type)).size >= 6);
      const path = join(folder, "z_image_mixed.gguf");
      Deno.writeFileSync(path, encodeGguf({ tensors }));
      const fromGguf = await latentsOf(folder, { transformer: path });
      writeSafetensors(`${folder}/transformer/diffusion_pytorch_model.safetensors`, decoded);
      const expected = await latentsOf(folder);
      const shape = [expected.length];
      assert.notEqual(
        expected[0],
        golden.tensor(CALL.name, "latents").data[0],
        "another transformer",
      );
      assertClose("latents", { shape, data: fromGguf }, { shape, data: expected }, 1e-4);
    }),
});

Deno.test("openPipeline() makes images from text with an autoencoder's decoder alone, and says what needs the encoder", () =>
  withFolder({}, async (folder) => {
    const all = tensorsOf(`${golden.folder}/vae`);
    const vae = join(folder, "decoder.safetensors");
    writeSafetensors(vae, new Map([...all].filter(([name]) => name.startsWith("decoder."))));
    assert.deepEqual(await latentsOf(golden.folder, { vae }), await latentsOf(golden.folder));
    using pipeline = await openPipeline(golden.folder, { vae });
    assert.deepEqual(pipeline.info.supportedTasks, ["T2I"]);
    const image = { width: 16, height: 16, data: new Uint8Array(3 * 16 * 16) };
    await assert.rejects(
      pipeline.generate({ ...textRequest(CALL), task: "TI2I", images: [image] }),
      /Cannot do TI2I: the autoencoder's file has its decoder alone; name a whole one with --vae/,
    );
  }));

Deno.test("openPipeline() makes the same image of a text encoder in parts, and none of one of them", () =>
  withFolder({}, async (folder) => {
    const all = [...tensorsOf(`${golden.folder}/text_encoder`)];
    const parts = [all.slice(0, all.length / 2), all.slice(all.length / 2)];
    const nameOf = (number: number) => join(folder, `model-0000${number}-of-00002.safetensors`);
    parts.forEach((part, i) => writeSafetensors(nameOf(i + 1), new Map(part)));
    const renamed = join(folder, "renamed.safetensors");
    writeSafetensors(renamed, new Map(parts[0]));
    const textEncoder = nameOf(2);
    // Not the folder, whose config.json has another rotary base than the published models.
    const whole = join(folder, "whole.safetensors");
    writeSafetensors(whole, new Map(all));
    assert.deepEqual(
      await latentsOf(golden.folder, { textEncoder }),
      await latentsOf(golden.folder, { textEncoder: whole }),
    );
    const tokenizer = { tokenizer: golden.folder };
    await assert.rejects(
      openPipeline(golden.folder, { textEncoder: renamed, ...tokenizer }),
      /incomplete/,
    );
    Deno.removeSync(nameOf(1));
    await assert.rejects(openPipeline(golden.folder, { textEncoder }), /it is part 2 of 2, and/);
  }));
