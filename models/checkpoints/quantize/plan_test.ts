import assert from "node:assert/strict";
import { memoryTensors } from "../../../tests/support/memory_tensors.ts";
import { planTensors } from "./plan.ts";
import { containersOf, QUANTIZE_TYPES, quantizedType } from "./types.ts";

/** Names, shapes and formats as published files have them. */
const TENSORS: Record<string, readonly [shape: number[], format?: string]> = {
  "model.diffusion_model.layers.3.attention.qkv.weight": [[11520, 3840]],
  "noise_refiner.1.feed_forward.w1.weight": [[10240, 3840]],
  "layers.3.attention_norm1.weight": [[3840]],
  "cap_embedder.1.weight": [[3840, 2560]],
  "single_stream_modulation.lin.weight": [[9216, 3072]],
  "transformer_blocks.0.attn.to_q.weight": [[96, 320]],
  "transformer_blocks.0.ff.net.2.weight": [[300, 100]],
  "blocks.0.self_attn.q.weight": [[1536, 1536], "F8_E4M3"],
  "patch_embedding.weight": [[1536, 16, 1, 2, 2]],
  "scale_shift_table": [[1, 6, 1536], "F32"],
  "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": [[32, 64]],
  "encoder.block.0.layer.0.SelfAttention.q.weight": [[4096, 4096], "F16"],
  "distilled_guidance_layer.layers.0.in_layer.weight": [[5120, 5120]],
  "position_ids": [[1, 77], "I64"],
  "model.diffusion_model.input_blocks.4.1.transformer_blocks.0.ff.net.0.proj.weight": [[5120, 640]],
  "model.diffusion_model.input_blocks.4.0.emb_layers.1.weight": [[640, 1280]],
  "model.diffusion_model.input_blocks.4.0.in_layers.2.weight": [[640, 320, 3, 3]],
  "conditioner.embedders.0.transformer.text_model.encoder.layers.0.mlp.fc1.weight": [[3072, 768]],
  "conditioner.embedders.0.transformer.text_model.embeddings.token_embedding.weight": [[
    49408,
    768,
  ]],
  "down_blocks.1.resnets.0.time_emb_proj.weight": [[640, 1280]],
  "first_stage_model.decoder.mid.attn_1.q.weight": [[512, 512, 1, 1]],
};

const source = {
  ...memoryTensors({}),
  names: Object.keys(TENSORS),
  find: (name: string) => {
    const [shape, format = "BF16"] = TENSORS[name]!;
    return { name, shape, format, byteLength: 0 };
  },
};

const plan = (...args: Parameters<typeof planTensors> extends [unknown, ...infer R] ? R : never) =>
  Object.fromEntries(planTensors(source, ...args).map(({ name, format }) => [name, format]));

Deno.test("planTensors() quantises matrices of blocks, keeps embedders, and stores the small as f32 in GGUF", () => {
  assert.deepEqual(plan("q4_k", "gguf"), {
    "model.diffusion_model.layers.3.attention.qkv.weight": "Q4_K",
    "noise_refiner.1.feed_forward.w1.weight": "Q4_K",
    "layers.3.attention_norm1.weight": "F32",
    "cap_embedder.1.weight": "BF16",
    "single_stream_modulation.lin.weight": "Q8_0",
    "transformer_blocks.0.attn.to_q.weight": "Q5_0",
    "transformer_blocks.0.ff.net.2.weight": "BF16",
    "blocks.0.self_attn.q.weight": "Q4_K",
    "patch_embedding.weight": "BF16",
    "scale_shift_table": "F32",
    "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": "BF16",
    "encoder.block.0.layer.0.SelfAttention.q.weight": "Q4_K",
    "distilled_guidance_layer.layers.0.in_layer.weight": "Q8_0",
    "position_ids": "I64",
    "model.diffusion_model.input_blocks.4.1.transformer_blocks.0.ff.net.0.proj.weight": "Q5_0",
    "model.diffusion_model.input_blocks.4.0.emb_layers.1.weight": "BF16",
    "model.diffusion_model.input_blocks.4.0.in_layers.2.weight": "BF16",
    "conditioner.embedders.0.transformer.text_model.encoder.layers.0.mlp.fc1.weight": "Q4_K",
    "conditioner.embedders.0.transformer.text_model.embeddings.token_embedding.weight": "Q8_0",
    "down_blocks.1.resnets.0.time_emb_proj.weight": "BF16",
    "first_stage_model.decoder.mid.attn_1.q.weight": "BF16",
  });
});

Deno.test("planTensors() of fp8 leaves all but the matrices of blocks as they are stored", () => {
  const formats = plan("f8_e4m3", "safetensors");
  const named = Object.keys(formats).filter((name) => formats[name] === "F8_E4M3");
  assert.equal(named.length, 8);
  assert.equal(formats["layers.3.attention_norm1.weight"], "BF16");
  assert.equal(formats["single_stream_modulation.lin.weight"], "BF16");
  assert.equal(plan("f16", "safetensors")["blocks.0.self_attn.q.weight"], "F16");
});

Deno.test("planTensors() gives other types to tensors that a rule names", () => {
  const formats = plan("q4_k", "gguf", [
    { pattern: /attention\.qkv/, type: "q6_k" },
    { pattern: /cap_embedder/, type: "q8_0" },
    { pattern: /noise_refiner/, type: "f16" },
  ]);
  assert.equal(formats["model.diffusion_model.layers.3.attention.qkv.weight"], "Q6_K");
  assert.equal(formats["cap_embedder.1.weight"], "Q8_0");
  assert.equal(formats["noise_refiner.1.feed_forward.w1.weight"], "F16");
});

Deno.test("quantizedType() knows every type by its name, and containersOf() what holds it", () => {
  assert.equal(quantizedType("Q4_K"), "q4_k");
  assert.equal(quantizedType("fp8"), "f8_e4m3");
  assert.equal(quantizedType("q9_k"), undefined);
  assert.ok(QUANTIZE_TYPES.every((name) => containersOf(quantizedType(name)!).length > 0));
  assert.deepEqual(containersOf("f8_e4m3"), ["safetensors"]);
  assert.deepEqual(containersOf("q4_k"), ["gguf"]);
});
