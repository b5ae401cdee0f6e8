/** LoRAs of Stable Diffusion 3 as trainers name them: all of every module lead to one of the model. */
import assert from "node:assert/strict";
import { openPipeline } from "../../models/mod.ts";
import { Golden } from "../support/golden.ts";
import { readTensors, type Tensors } from "../support/lora_files.ts";

/** Sizes of the golden's transformer and text encoders. */
const [DIM, CLIP, CLIP_G, T5] = [128, 32, 40, 96];

type Layer = readonly [module: string, rows: number, columns: number];

/** Layers by Stability AI's names; the last block has vectors of a norm alone for the text. */
const ORIGINAL: readonly Layer[] = [
  ["joint_blocks.0.x_block.attn.qkv", 3 * DIM, DIM],
  ["joint_blocks.1.x_block.attn2.qkv", 3 * DIM, DIM],
  ["joint_blocks.2.x_block.mlp.fc1", 4 * DIM, DIM],
  ["joint_blocks.0.x_block.adaLN_modulation.1", 9 * DIM, DIM],
  ["joint_blocks.1.context_block.attn.proj", DIM, DIM],
  ["joint_blocks.1.context_block.adaLN_modulation.1", 6 * DIM, DIM],
  ["joint_blocks.2.context_block.adaLN_modulation.1", 2 * DIM, DIM],
  ["context_embedder", DIM, T5],
  ["final_layer.linear", 64, DIM],
];

/** By diffusers' names. */
const DIFFUSERS: readonly Layer[] = [
  ["transformer_blocks.0.attn.to_q", DIM, DIM],
  ["transformer_blocks.1.attn.add_k_proj", DIM, DIM],
  ["transformer_blocks.1.attn2.to_out.0", DIM, DIM],
  ["transformer_blocks.2.norm1_context.linear", 2 * DIM, DIM],
  ["transformer_blocks.0.ff_context.net.2", DIM, 4 * DIM],
  ["proj_out", 64, DIM],
];

const clip = (dim: number): readonly Layer[] => [
  ["text_model.encoder.layers.1.self_attn.q_proj", dim, dim],
];
const T5_LAYERS: readonly Layer[] = [["encoder.block.1.layer.0.SelfAttention.q", 64, T5]];

const flat = (prefix: string) => (name: string) => prefix + name.replaceAll(".", "_");
const after = (prefix: string) => (name: string) => prefix + name;

const FILES: readonly (readonly [
  trainer: string,
  ends: readonly [down: string, up: string],
  parts: readonly (readonly [readonly Layer[], (name: string) => string])[],
])[] = [
  ["kohya", [".lora_down.weight", ".lora_up.weight"], [
    [ORIGINAL, flat("lora_unet_")],
    [clip(CLIP), flat("lora_te1_")],
    [clip(CLIP_G), flat("lora_te2_")],
    [T5_LAYERS, flat("lora_te3_")],
  ]],
  ["diffusers", [".lora_A.weight", ".lora_B.weight"], [
    [DIFFUSERS, after("transformer.")],
    [clip(CLIP), after("text_encoder.")],
    [clip(CLIP_G), after("text_encoder_2.")],
    [T5_LAYERS, after("text_encoder_3.")],
  ]],
  ["ComfyUI", [".lora_A.weight", ".lora_B.weight"], [[ORIGINAL, after("diffusion_model.")]]],
  ["OneTrainer", [".lora_down.weight", ".lora_up.weight"], [
    [DIFFUSERS, flat("lora_transformer_")],
  ]],
];

Deno.test("LoRAs of SD 3 lead to layers of the transformer and of three text encoders under the names of trainers", async () => {
  using pipeline = await openPipeline(new Golden("stable_diffusion_3/pipeline").folder);
  for (const [trainer, [down, up], parts] of FILES) {
    const tensors: Tensors = Object.fromEntries(
      parts.flatMap(([layers, nameOf]) =>
        layers.flatMap(([module, rows, columns]) =>
          ([[down, [2, columns]], [up, [rows, 2]]] as const).map(([end, shape]) => [
            nameOf(module) + end,
            { shape, dtype: "f32" as const, bytes: new Uint8Array(4 * shape[0] * shape[1]) },
          ])
        )
      ),
    );
    const lora = await readTensors(tensors, pipeline.adaptable);
    assert.deepEqual(lora.unmatchedKeys, [], trainer);
    const targets = new Set(lora.changes.map(({ target }) => target));
    const all = ["transformer", "text_encoder", "text_encoder_2", "text_encoder_3"];
    assert.deepEqual([...targets].sort(), all.slice(0, parts.length).sort(), trainer);
  }
});
