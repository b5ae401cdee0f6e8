/** Transformers in files of their own, under the names of the Wan team, against diffusers' folders of the same. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { type ModelParts, openPipeline, type PipelineRequest } from "../../models/mod.ts";
import { Checkpoint } from "../../runtime/mod.ts";
import { encodeGguf } from "../support/gguf.ts";
import { Golden } from "../support/golden.ts";
import { openTestDevice } from "../support/model_run.ts";
import { encodeSafetensors, withFolder } from "../support/safetensors.ts";

/** From diffusers' names to those of the Wan team's code, in the order in which they are replaced. */
const RENAMED: readonly (readonly [RegExp, string])[] = [
  [/^(vace_)?blocks\.(\d+)\.norm2\./, "$1blocks.$2.norm3."],
  [/^vace_blocks\.(\d+)\.proj_in\./, "vace_blocks.$1.before_proj."],
  [/^vace_blocks\.(\d+)\.proj_out\./, "vace_blocks.$1.after_proj."],
  [/\.scale_shift_table$/, ".modulation"],
  [/^scale_shift_table$/, "head.modulation"],
  [/^proj_out\./, "head.head."],
  [/\.attn1\./, ".self_attn."],
  [/\.attn2\./, ".cross_attn."],
  [/\.to_([qkv])\./, ".$1."],
  [/\.to_out\.0\./, ".o."],
  [/\.add_([kv])_proj\./, ".$1_img."],
  [/\.norm_added_k\./, ".norm_k_img."],
  [/\.ffn\.net\.0\.proj\./, ".ffn.0."],
  [/\.ffn\.net\.2\./, ".ffn.2."],
  [/^condition_embedder\.image_embedder\.norm1\./, "img_emb.proj.0."],
  [/^condition_embedder\.image_embedder\.ff\.net\.0\.proj\./, "img_emb.proj.1."],
  [/^condition_embedder\.image_embedder\.ff\.net\.2\./, "img_emb.proj.3."],
  [/^condition_embedder\.image_embedder\.norm2\./, "img_emb.proj.4."],
  [/^condition_embedder\.text_embedder\.linear_1\./, "text_embedding.0."],
  [/^condition_embedder\.text_embedder\.linear_2\./, "text_embedding.2."],
  [/^condition_embedder\.time_embedder\.linear_1\./, "time_embedding.0."],
  [/^condition_embedder\.time_embedder\.linear_2\./, "time_embedding.2."],
  [/^condition_embedder\.time_proj\./, "time_projection.1."],
];

/** ggml's number of F16. */
const F16 = 1;

interface Tensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** The tensors of a component, all in float16, under the other names. */
function original(folder: string): Tensor[] {
  using checkpoint = Checkpoint.open(folder);
  return [...checkpoint.names].map((name) => {
    const { shape, format, byteLength } = checkpoint.find(name)!;
    assert.equal(format, "F16");
    const bytes = new Uint8Array(byteLength);
    checkpoint.read(name, 0, bytes);
    const theirs = RENAMED.reduce((text, [ours, other]) => text.replace(ours, other), name);
    return { name: theirs, shape, bytes };
  });
}

function safetensors(tensors: readonly Tensor[], prefix: string): Uint8Array {
  let end = 0;
  const header = Object.fromEntries(tensors.map(({ name, shape, bytes }) => {
    const start = end;
    end += bytes.byteLength;
    return [prefix + name, { dtype: "F16", shape, data_offsets: [start, end] }];
  }));
  const data = new Uint8Array(end);
  let at = 0;
  for (const { bytes } of tensors) {
    data.set(bytes, at);
    at += bytes.byteLength;
  }
  return encodeSafetensors(header, data);
}

function gguf(tensors: readonly Tensor[]): Uint8Array {
  return encodeGguf({
    metadata: [["general.architecture", { text: "wan" }]],
    tensors: tensors.map(({ name, shape, bytes }) => [name, { type: F16, shape, data: bytes }]),
  });
}

async function latents(
  model: string,
  parts: ModelParts,
  request: PipelineRequest,
): Promise<Float32Array> {
  const device = await openTestDevice();
  using pipeline = await openPipeline(model, parts);
  try {
    await pipeline.load(device);
    return (await pipeline.generate(request)).latents;
  } finally {
    device.destroy();
  }
}

const size = { width: 32, height: 32 };
const pixels = (length: number) => Uint8Array.from({ length }, (_, i) => i * 7 % 256);
const image = { ...size, data: pixels(32 * 32 * 3), vision: pixels(28 * 28 * 3) };
const request = (others: Partial<PipelineRequest>): PipelineRequest => ({
  ...{ task: "T2V", prompt: "a cat", negativePrompt: "", seed: 3, guidanceScale: 2 },
  ...{ ...size, numFrames: 5, numInferenceSteps: 2 },
  ...others,
});

const CASES: readonly (readonly [golden: string, request: PipelineRequest])[] = [
  ["pipeline-t2v-experts", request({})],
  ["pipeline-i2v", request({ task: "I2V", images: [image] })],
  ["pipeline-vace", request({ references: [image] })],
];

for (const [name, request] of CASES) {
  const { folder } = new Golden(`wan/${name}`);
  const others = { textEncoder: folder, vae: folder, tokenizer: folder };

  Deno.test(`openPipeline() takes transformers from files of the Wan team's names: ${name}`, async () => {
    const tensors = original(join(folder, "transformer"));
    const hasSecond = name.endsWith("experts");
    const second = hasSecond ? original(join(folder, "transformer_2")) : [];
    const files = {
      "first.safetensors": safetensors(tensors, "model.diffusion_model."),
      "first.gguf": gguf(tensors),
      "second.safetensors": safetensors(second, ""),
    };
    await withFolder(files, async (place) => {
      const expected = await latents(folder, {}, request);
      const parts = {
        ...others,
        ...(hasSecond && { transformer2: join(place, "second.safetensors") }),
        ...(name === "pipeline-i2v" && { imageEncoder: folder }),
      };
      for (const file of ["first.safetensors", "first.gguf"]) {
        assert.deepEqual(await latents(join(place, file), parts, request), expected, file);
      }
    });
  });
}

Deno.test("openPipeline() names the image encoder that a transformer's file needs", async () => {
  const { folder } = new Golden("wan/pipeline-i2v");
  const file = safetensors(original(join(folder, "transformer")), "");
  await withFolder({ "i2v.safetensors": file }, async (place) => {
    await assert.rejects(
      openPipeline(join(place, "i2v.safetensors"), {
        ...{ textEncoder: folder, vae: folder, tokenizer: folder },
      }),
      /the image encoder is missing; name it with parts.imageEncoder: a path or a hub id, such as Wan-AI\/Wan2\.1-I2V/,
    );
  });
});

Deno.test("openPipeline() refuses a folder whose transformer needs an image encoder that is not there", async () => {
  const { folder } = new Golden("wan/pipeline-i2v");
  const index = JSON.parse(await Deno.readTextFile(join(folder, "model_index.json")));
  const text = JSON.stringify({ ...index, image_encoder: [null, null] });
  await withFolder({ "model_index.json": text }, async (place) => {
    for (const part of ["transformer", "text_encoder", "vae", "scheduler", "tokenizer"]) {
      await Deno.symlink(join(folder, part), join(place, part), { type: "dir" });
    }
    await assert.rejects(openPipeline(place), /it has none; name one with --image-encoder$/);
    using pipeline = await openPipeline(place, { imageEncoder: folder });
    assert.deepEqual(pipeline.info.supportedTasks, ["I2V", "F2V"]);
  });
});

Deno.test("openPipeline() refuses the weights of TurboWan's sparse-linear attention, by name", async () => {
  const { folder } = new Golden("wan/pipeline-vace");
  const names = ["self_attn.attn_op.local_attn", "attn1.attn_op.local_attn", "attn1.attn_impl"]
    .map((module) => `blocks.1.${module}.proj_l.weight`);
  const tensors = original(join(folder, "transformer"));
  for (const name of names) {
    const projection = { name, shape: [2, 2], bytes: new Uint8Array(8) };
    const file = safetensors([...tensors, projection], "");
    await withFolder({ "turbo.safetensors": file }, async (place) => {
      const path = join(place, "turbo.safetensors");
      const message = new RegExp(
        `^Cannot use "[^"]+": it has "${name}", for sparse-linear attention`,
      );
      const parts = { textEncoder: folder, vae: folder, tokenizer: folder };
      await assert.rejects(openPipeline(path, parts), { message });
      await assert.rejects(openPipeline(folder, { transformer: path }), { message });
    });
  }
});
