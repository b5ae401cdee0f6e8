/** Qwen-Image from single files: the same images as from the folders that hold the same numbers. */
import assert from "node:assert/strict";
import { openPipeline } from "../../models/mod.ts";
import { Checkpoint, type StoredTensor } from "../../runtime/mod.ts";
import { assertClose, Golden } from "../golden.ts";
import { textRequest } from "../golden_request.ts";
import { encodeSafetensors, withFolder } from "../safetensors.ts";
import { openTestDevice } from "../model_run.ts";

const golden = new Golden("qwen_image/pipeline");

/** A tensor with its bytes. */
type Bytes = Pick<StoredTensor, "format" | "shape"> & { readonly bytes: Uint8Array };
type Tensors = ReadonlyMap<string, Bytes>;

/** Those of a component, renamed. */
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
