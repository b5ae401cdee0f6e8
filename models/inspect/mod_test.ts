import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { safetensorsOf, withFolder } from "../../tests/support/safetensors.ts";
import { inspect } from "../file_tools.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const GOLDENS = join(ROOT, "tests/goldens");
const zeros = (shape: readonly number[]) => ({
  dtype: "bf16" as const,
  shape,
  values: new Float32Array(shape.reduce((a, b) => a * b, 1)),
});

Deno.test("inspect() of a model's folder tells family, parts, formats, and what they take on the GPU", async () => {
  const { kind, family, pipeline, components, bytes } = await inspect(join(ROOT, "models/bundled"));
  assert.deepEqual([kind, family, pipeline], ["model", "Wan", "WanPipeline"]);
  assert.deepEqual(components.map(({ component }) => component), [
    ...["text_encoder", "transformer", "vae"],
  ]);
  assert.equal(bytes, components.reduce((sum, component) => sum + component.bytes, 0));
  const [encoder, transformer] = components;
  assert.deepEqual(transformer!.formats.map(({ format }) => format), ["F16"]);
  assert.equal(transformer!.deviceBytes, transformer!.bytes);
  assert.ok(encoder!.deviceBytes < encoder!.bytes, "rows of embeddings stay in the file");
});

Deno.test("inspect() of a single file tells every component in it, and what is missing", async () => {
  const { kind, family, components, problem } = await inspect(
    join(GOLDENS, "single_files/wan/all.safetensors"),
  );
  assert.deepEqual([kind, family], ["weights", "Wan"]);
  assert.deepEqual(components.map(({ holds }) => holds), [
    ...["a Wan transformer", "a UMT5 text encoder", "a Wan autoencoder"],
  ]);
  assert.match(problem!, /the tokenizer is missing; name it with parts.tokenizer/);
});

Deno.test("inspect() of LoRAs tells dialect, family, ranks and targets", async () => {
  const lora = async (path: string) => {
    const { kind, lora } = await inspect(join(GOLDENS, "lora", path));
    assert.equal(kind, "lora");
    return [lora!.dialect, lora!.family, lora!.ranks.toSorted(), Object.keys(lora!.modules)];
  };
  assert.deepEqual(await lora("kohya.safetensors"), ["kohya", "Wan", [2], ["transformer"]]);
  assert.deepEqual(await lora("flux-xlabs.safetensors"), ["XLabs", "FLUX.1", [3], ["transformer"]]);
  assert.deepEqual(await lora("lokr.safetensors"), ["LyCORIS (LoKr)", "Wan", [2], ["transformer"]]);
  assert.deepEqual(await lora("text-encoder-kohya.safetensors"), [
    ...["kohya", undefined, [4], ["text encoder"]],
  ]);
  assert.deepEqual(await lora("peft"), ["PEFT", "Wan", [2, 3, 4], ["transformer"]]);
});

Deno.test("inspect() tells the vectors of embeddings for text encoders that are known", () =>
  withFolder({
    "pair.safetensors": safetensorsOf({ clip_g: zeros([2, 1280]), clip_l: zeros([2, 768]) }),
    "other.safetensors": safetensorsOf({ emb_params: zeros([2, 100]) }),
  }, async (folder) => {
    const { kind, embedding, isUsable } = await inspect(join(folder, "pair.safetensors"));
    const vectors = [{ width: 768, count: 2 }, { width: 1280, count: 2 }];
    assert.deepEqual([kind, embedding, isUsable], ["embedding", vectors, true]);
    assert.equal((await inspect(join(folder, "other.safetensors"))).kind, "unknown");
  }));

Deno.test("inspect() tells the size of a LoRA's model by its width, and what is not applied", () =>
  withFolder({
    "a.safetensors": safetensorsOf({
      "blocks.0.self_attn.q.lora_down.weight": zeros([2, 5120]),
      "blocks.0.self_attn.q.lora_up.weight": zeros([5120, 2]),
      "blocks.0.self_attn.k.oft_blocks": zeros([2, 2, 2]),
    }),
  }, async (folder) => {
    const { lora } = await inspect(join(folder, "a.safetensors"));
    assert.equal(lora!.family, "Wan 14B");
    assert.deepEqual(lora!.refused, ["OFT"]);
  }));

Deno.test("inspect() says of unknown weights what they are called, and of a pipeline that it is unknown", () =>
  withFolder({
    "a.safetensors": safetensorsOf({ "encoder.what.weight": zeros([2, 3]) }),
    "model_index.json": `{"_class_name":"NoPipeline","vae":["diffusers","AutoencoderKL"]}`,
  }, async (folder) => {
    const { kind, names, components } = await inspect(join(folder, "a.safetensors"));
    assert.deepEqual([kind, names], ["unknown", ["encoder.what.weight"]]);
    assert.equal(components[0]!.parameters, 6);
    const model = await inspect(folder);
    assert.deepEqual([model.kind, model.pipeline, model.family], [
      "model",
      "NoPipeline",
      undefined,
    ]);
    assert.match(model.problem!, /NoPipeline is no pipeline that this program knows/);
  }));

Deno.test("inspect() of a folder tells of every part that cannot be read, and that it is of no use", () =>
  withFolder({
    "model_index.json": JSON.stringify({
      _class_name: "WanPipeline",
      ...{ transformer: ["diffusers", "T"], text_encoder: ["transformers", "U"] },
      ...{ vae: ["diffusers", "V"], scheduler: ["diffusers", "UniPCMultistepScheduler"] },
    }),
    "transformer/config.json": "{}",
    "text_encoder/model.safetensors": "<html>",
    "vae/model.safetensors": safetensorsOf({ "a.weight": zeros([2, 3]) }),
    "scheduler/scheduler_config.json": "{}",
  }, async (folder) => {
    const { isUsable, problem, components } = await inspect(folder);
    assert.equal(isUsable, false);
    assert.deepEqual(components.map(({ component }) => component), ["vae"]);
    const [first, second, ...others] = problem!.split("\n");
    assert.match(first!, /Cannot find weights in ".*transformer"/);
    assert.match(second!, /text_encoder.*it is a web page/);
    assert.deepEqual(others, []);
  }));

Deno.test("inspect() says of a file what its metadata or its tensors contradict", () =>
  withFolder({
    "encoder.safetensors": safetensorsOf({
      "embed_tokens.weight": zeros([10, 8]),
      "layers.0.self_attn.q_norm.weight": zeros([4]),
    }),
  }, async (folder) => {
    const { isUsable, problem } = await inspect(join(folder, "encoder.safetensors"));
    assert.equal(isUsable, false);
    assert.match(problem!, /it lacks "norm\.weight"; it is incomplete/);
  }));

Deno.test("inspect() knows LoRAs that are of no use: of methods or formats that are not read", () =>
  withFolder({
    "odd.safetensors": safetensorsOf({
      "blocks.0.q.lora_down.weight": { ...zeros([2, 8]), dtype: "u32" },
      "blocks.0.q.lora_up.weight": { ...zeros([8, 2]), dtype: "u32" },
    }),
    "good.safetensors": safetensorsOf({
      "blocks.0.q.lora_down.weight": zeros([2, 8]),
      "blocks.0.q.lora_up.weight": zeros([8, 2]),
    }),
  }, async (folder) => {
    const { isUsable, problem } = await inspect(join(folder, "odd.safetensors"));
    assert.deepEqual([isUsable, problem], [
      false,
      "Cannot use it: LoRAs are read in F32, F16 and BF16",
    ]);
    assert.equal((await inspect(join(folder, "good.safetensors"))).isUsable, true);
  }));
