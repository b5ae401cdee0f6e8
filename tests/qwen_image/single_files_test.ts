/** Qwen-Image from single files: the same images as from the folders that hold the same numbers. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { openPipeline } from "../../models/mod.ts";
import { Checkpoint, type StoredTensor } from "../../runtime/mod.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { encodeGguf, type GgufField } from "../support/gguf.ts";
import { encodeSafetensors, withFolder } from "../support/safetensors.ts";
import { framesOf } from "../support/single_files.ts";
import { openTestDevice } from "../support/model_run.ts";

const golden = new Golden("qwen_image/pipeline");

/** A tensor with its bytes. */
type Bytes = Pick<StoredTensor, "format" | "shape"> & { readonly bytes: Uint8Array };
type Tensors = ReadonlyMap<string, Bytes>;

/** Tensors of a component, renamed. */
function tensorsOf(component: string, rename: (name: string) => string): Tensors {
  using checkpoint = Checkpoint.open(`${golden.folder}/${component}`);
  return new Map([...checkpoint.names].map((name) => {
    const { format, shape, byteLength } = checkpoint.find(name)!;
    const bytes = new Uint8Array(byteLength);
    checkpoint.read(name, 0, bytes);
    return [rename(name), { format, shape, bytes }];
  }));
}

function safetensors(tensors: Tensors): Uint8Array {
  const header: Record<string, unknown> = {};
  let offset = 0;
  for (const [name, { format, shape, bytes }] of tensors) {
    const end = offset + bytes.length;
    header[name] = { dtype: format, shape, data_offsets: [offset, end] };
    offset = end;
  }
  const data = new Uint8Array(offset);
  offset = 0;
  for (const { bytes } of tensors.values()) {
    data.set(bytes, offset);
    offset += bytes.length;
  }
  return encodeSafetensors(header, data);
}

/** As the Wan team names an autoencoder of one residual block a level, all of a side in one list. */
function wanName(name: string): string {
  const level = (_: string, at: string, i: string) => `decoder.upsamples.${3 * Number(at) + +i}`;
  return name
    .replace(/^(post_)?quant_conv/, (_, post) => (post ? "conv2" : "conv1"))
    .replace("conv_in", "conv1").replace("norm_out", "head.0").replace("conv_out", "head.2")
    .replace("mid_block.attentions.0", "middle.1")
    .replace(/mid_block\.resnets\.(\d)/, (_, i) => `middle.${2 * i}`)
    .replace("encoder.down_blocks", "encoder.downsamples")
    .replace(/decoder\.up_blocks\.(\d)\.resnets\.(\d)/, level)
    .replace(/decoder\.up_blocks\.(\d)\.upsamplers\.0/, (_, at) => level(_, at, "2"))
    .replace(/\.norm1\.gamma/, ".residual.0.gamma").replace(/\.norm2\.gamma/, ".residual.3.gamma")
    .replace(/(samples\.\d+|middle\.[02])\.conv1/, "$1.residual.2")
    .replace(/(samples\.\d+|middle\.[02])\.conv2/, "$1.residual.6")
    .replace("conv_shortcut", "shortcut");
}

const TRANSFORMER = tensorsOf("transformer", (name) => `model.diffusion_model.${name}`);
const VAE = tensorsOf("vae", (name) => `vae.${wanName(name)}`);
const textEncoder = (prefix: string) => tensorsOf("text_encoder", (name) => prefix + name);

Deno.test("a file with Qwen-Image's transformer, text encoder and autoencoder gives diffusers' latents", () => {
  const encoder = textEncoder("text_encoders.qwen25_7b.transformer.");
  const file = safetensors(new Map([...TRANSFORMER, ...encoder, ...VAE]));
  return withFolder({ "qwen_image_all.safetensors": file }, async (folder) => {
    const device = await openTestDevice();
    const { folder: tokenizer } = golden;
    using pipeline = await openPipeline(`${folder}/qwen_image_all.safetensors`, { tokenizer });
    try {
      await pipeline.load(device);
      const call = golden.call("text");
      const { latents } = await pipeline.generate({ ...textRequest(call), guidanceScale: 1 });
      const expected = golden.tensor("text", "latents");
      assertClose("latents", { shape: expected.shape, data: latents }, expected, 1e-4);
    } finally {
      device.destroy();
    }
  });
});

Deno.test("a file that ComfyUI marks as Qwen-Image-Edit-2511 edits, if its text encoder sees images", () => {
  const mark = { format: "F32", shape: [0], bytes: new Uint8Array() };
  const files = {
    "mine.safetensors": safetensors(
      new Map([...TRANSFORMER, ["model.diffusion_model.__index_timestep_zero__", mark]]),
    ),
    "qwen_vl.safetensors": safetensors(textEncoder("")),
    "language.safetensors": safetensors(
      new Map([...textEncoder("")].filter(([name]) => !name.startsWith("visual."))),
    ),
    "vae.safetensors": safetensors(VAE),
  };
  return withFolder(files, async (folder) => {
    const partsWith = (encoder: string) => ({
      textEncoder: `${folder}/${encoder}.safetensors`,
      vae: `${folder}/vae.safetensors`,
      tokenizer: golden.folder,
    });
    using pipeline = await openPipeline(`${folder}/mine.safetensors`, partsWith("qwen_vl"));
    const { className, supportedTasks, maxImages, defaults } = pipeline.info;
    assert.equal(className, "QwenImageEditPlusPipeline");
    assert.deepEqual(supportedTasks, ["TI2I"]);
    assert.equal(maxImages, 3);
    assert.equal(defaults.numInferenceSteps, 40);
    await assert.rejects(
      openPipeline(`${folder}/mine.safetensors`, partsWith("language")),
      { message: /Cannot edit images: the text encoder is a language model alone/ },
    );
  });
});

/** ggml's numbers of types. */
const GGML_TYPES: Readonly<Record<string, number>> = { F32: 0, F16: 1, BF16: 30 };

function gguf(
  tensors: Tensors,
  metadata: readonly (readonly [key: string, field: GgufField])[] = [],
): Uint8Array {
  return encodeGguf({
    metadata,
    tensors: [...tensors].map(([name, { format, shape, bytes }]) => [
      name,
      { type: GGML_TYPES[format]!, shape, data: bytes },
    ]),
  });
}

/** A tensor's name as llama.cpp writes it. */
function llamaName(name: string): string {
  return name.replace(/^model\./, "").replace("embed_tokens", "token_embd")
    .replace(/^norm\./, "output_norm.").replace("lm_head", "output")
    .replace(/^layers\.(\d+)\./, "blk.$1.").replace("input_layernorm", "attn_norm")
    .replace("post_attention_layernorm", "ffn_norm").replace("self_attn.o_proj", "attn_output")
    .replace(/self_attn\.([qkv])_proj/, "attn_$1").replace(/mlp\.(\w+)_proj/, "ffn_$1");
}

/** A vision tower as llama.cpp has it: queries, keys and values apart, and the frames of patches. */
function mmproj(tower: Tensors): Tensors {
  const tensors = new Map<string, Bytes>();
  for (const [name, tensor] of tower) {
    const { shape, bytes } = tensor;
    const theirs = name.replace("visual.blocks.", "v.blk.").replace("visual.merger.mlp.", "mm.")
      .replace("visual.merger.ln_q", "v.post_ln").replace(".norm1.", ".ln1.")
      .replace(".norm2.", ".ln2.").replace("attn.proj", "attn_out")
      .replace(/mlp\.(\w+)_proj/, "ffn_$1");
    if (theirs.includes("attn.qkv")) {
      const length = bytes.length / 3;
      ["q", "k", "v"].forEach((part, i) =>
        tensors.set(theirs.replace("attn.qkv", `attn_${part}`), {
          ...tensor,
          shape: [shape[0]! / 3, ...shape.slice(1)],
          bytes: bytes.slice(i * length, (i + 1) * length),
        })
      );
    } else if (name === "visual.patch_embed.proj.weight") {
      framesOf(tensor).forEach((own, frame) =>
        tensors.set(`v.patch_embd.weight${frame === 0 ? "" : `.${frame}`}`, own)
      );
    } else tensors.set(theirs, tensor);
  }
  return tensors;
}

Deno.test("GGUF files of Qwen-Image-Edit and Qwen2.5-VL with its mmproj beside it give diffusers' edit", () => {
  const encoder = [...textEncoder("")];
  const isTower = ([name]: readonly [string, unknown]) => name.startsWith("visual.");
  const language = new Map(
    encoder.filter((entry) => !isTower(entry)).map(([name, tensor]) => [llamaName(name), tensor]),
  );
  const bare = (name: string) => name.replace("model.diffusion_model.", "");
  const files = {
    "qwen-image-edit-F16.gguf": gguf(new Map([...TRANSFORMER].map(([name, t]) => [bare(name), t]))),
    "Qwen2.5-VL-7B.gguf": gguf(language),
    "Qwen2.5-VL-7B-mmproj.gguf": gguf(mmproj(new Map(encoder.filter(isTower))), [
      ["clip.vision.n_wa_pattern", { u32: 2 }],
      ["clip.vision.attention.head_count", { u32: 2 }],
    ]),
    "qwen_image_vae.safetensors": safetensors(VAE),
  };
  return withFolder(files, async (folder) => {
    const model = `${folder}/qwen-image-edit-F16.gguf`;
    const parts = {
      textEncoder: `${folder}/Qwen2.5-VL-7B.gguf`,
      vae: `${folder}/qwen_image_vae.safetensors`,
      tokenizer: golden.folder,
    };
    {
      using pipeline = await openPipeline(model, parts);
      assert.equal(pipeline.info.className, "QwenImageEditPipeline");
    }
    // Folders alone say that copies of images are smaller than those of published models.
    const index = JSON.parse(Deno.readTextFileSync(`${golden.folder}/model_index.json`));
    const className = "QwenImageEditPipeline";
    Deno.mkdirSync(`${folder}/model`);
    Deno.writeTextFileSync(
      `${folder}/model/model_index.json`,
      JSON.stringify({ ...index, _class_name: className, vae_image_size: 96 * 96 }),
    );
    cpSync(`${golden.folder}/scheduler`, `${folder}/model/scheduler`, { recursive: true });
    const device = await openTestDevice();
    try {
      using pipeline = await openPipeline(`${folder}/model`, { ...parts, transformer: model });
      await pipeline.load(device);
      const call = golden.call("edit");
      const { shape: [height, width], data } = golden.tensor("edit", "given0");
      const { latents } = await pipeline.generate({
        ...textRequest(call),
        ...{ task: "TI2I", guidanceScale: 1 },
        images: [{ width: width!, height: height!, data: Uint8Array.from(data) }],
      });
      const expected = golden.tensor("edit", "latents");
      assertClose("latents", { shape: expected.shape, data: latents }, expected, 1e-4);
    } finally {
      device.destroy();
    }
    const other = `${folder}/Qwen2.5-VL-7B-mmproj.gguf`;
    Deno.renameSync(other, `${folder}/tower.gguf`);
    await assert.rejects(openPipeline(model, parts), { message: /name its tower with --mmproj/ });
    using _named = await openPipeline(model, { ...parts, mmproj: `${folder}/tower.gguf` });
  });
});
