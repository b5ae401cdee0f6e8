/** LoRAs of FLUX.1 as trainers name them: all of every module lead to one of the model. */
import assert from "node:assert/strict";
import { openPipeline } from "../../models/mod.ts";
import { Golden } from "../support/golden.ts";
import { readTensors, type Tensors } from "../support/lora_files.ts";

/** Sizes of the golden's transformer, of its CLIP and of its T5. */
const [DIM, CLIP_DIM, CLIP_INNER, T5_DIM, T5_INNER] = [32, 32, 37, 64, 96];

/** What a file holds of one layer: ends of its keys with the shapes of their tensors. */
type Change = (rows: number, columns: number) => Readonly<Record<string, [number, number]>>;

/** A product of two factors. */
const pair = (down: string, up: string): Change => (rows, columns) => ({
  ...{ [down]: [2, columns], [up]: [rows, 2] },
});

function tensorsOf(module: string, shapes: ReturnType<Change>): Tensors {
  return Object.fromEntries(
    Object.entries(shapes).map(([end, shape]) => [
      `${module}${end}`,
      { shape, dtype: "f32" as const, bytes: new Uint8Array(4 * shape[0] * shape[1]) },
    ]),
  );
}

type Layer = readonly [module: string, rows: number, columns: number];

/** Layers by Black Forest Labs' names. */
const ORIGINAL: readonly Layer[] = [
  ...["img", "txt"].flatMap((stream): Layer[] => [
    [`double_blocks.0.${stream}_attn.qkv`, 3 * DIM, DIM],
    [`double_blocks.0.${stream}_attn.proj`, DIM, DIM],
    [`double_blocks.0.${stream}_mlp.0`, 4 * DIM, DIM],
    [`double_blocks.0.${stream}_mlp.2`, DIM, 4 * DIM],
    [`double_blocks.0.${stream}_mod.lin`, 6 * DIM, DIM],
  ]),
  ["single_blocks.1.linear1", 7 * DIM, DIM],
  ["single_blocks.1.linear2", DIM, 5 * DIM],
  ["single_blocks.1.modulation.lin", 3 * DIM, DIM],
  ["img_in", DIM, 64],
  ["time_in.in_layer", DIM, 256],
  ["guidance_in.out_layer", DIM, DIM],
  ["final_layer.linear", 64, DIM],
  ["final_layer.adaLN_modulation.1", 2 * DIM, DIM],
];

/** Layers by diffusers' names. */
const DIFFUSERS: readonly Layer[] = [
  ["transformer_blocks.0.attn.to_q", DIM, DIM],
  ["transformer_blocks.0.attn.add_k_proj", DIM, DIM],
  ["transformer_blocks.0.attn.to_out.0", DIM, DIM],
  ["transformer_blocks.0.attn.to_add_out", DIM, DIM],
  ["transformer_blocks.0.ff.net.0.proj", 4 * DIM, DIM],
  ["transformer_blocks.0.ff_context.net.2", DIM, 4 * DIM],
  ["transformer_blocks.0.norm1_context.linear", 6 * DIM, DIM],
  ["single_transformer_blocks.0.proj_mlp", 4 * DIM, DIM],
  ["single_transformer_blocks.0.proj_out", DIM, 5 * DIM],
  ["norm_out.linear", 2 * DIM, DIM],
];

const CLIP: readonly Layer[] = [
  ["text_model.encoder.layers.1.self_attn.q_proj", CLIP_DIM, CLIP_DIM],
  ["text_model.encoder.layers.0.mlp.fc1", CLIP_INNER, CLIP_DIM],
];

const T5: readonly Layer[] = [
  ["encoder.block.1.layer.0.SelfAttention.q", T5_DIM, T5_DIM],
  ["encoder.block.0.layer.1.DenseReluDense.wo", T5_DIM, T5_INNER],
];

const XLABS: readonly Layer[] = [
  ["double_blocks.0.processor.qkv_lora1", 3 * DIM, DIM],
  ["double_blocks.0.processor.proj_lora2", DIM, DIM],
  ["single_blocks.1.processor.qkv_lora", 3 * DIM, DIM],
];

const KOHYA = pair(".lora_down.weight", ".lora_up.weight");
const PEFT = pair(".lora_A.weight", ".lora_B.weight");
const LOKR: Change = (rows, columns) => ({ ".lokr_w1": [2, 1], ".lokr_w2": [rows / 2, columns] });
const LOHA: Change = (rows, columns) => ({
  ...{ ".hada_w1_a": [rows, 2], ".hada_w1_b": [2, columns] },
  ...{ ".hada_w2_a": [rows, 2], ".hada_w2_b": [2, columns] },
});
const flat = (prefix: string) => (name: string) => prefix + name.replaceAll(".", "_");
const after = (prefix: string) => (name: string) => prefix + name;

type Files = readonly (readonly [layers: readonly Layer[], name: (name: string) => string])[];

/** What files hold, and as which changes. */
const TRAINERS: readonly (readonly [
  trainer: string,
  dialect: string,
  change: Change,
  files: Files,
])[] = [
  ["kohya", "kohya", KOHYA, [
    [ORIGINAL, flat("lora_unet_")],
    ...[[CLIP, flat("lora_te1_")], [T5, flat("lora_te3_")]] as const,
  ]],
  ["OneTrainer", "kohya", KOHYA, [
    [DIFFUSERS, flat("lora_transformer_")],
    ...[[CLIP, flat("lora_te1_")], [T5, flat("lora_te2_")]] as const,
  ]],
  ["diffusers", "diffusers", PEFT, [
    [DIFFUSERS, after("transformer.")],
    ...[[CLIP, after("text_encoder.")], [T5, after("text_encoder_2.")]] as const,
  ]],
  ["PEFT", "PEFT", PEFT, [[DIFFUSERS, after("base_model.model.")]]],
  ["ai-toolkit", "diffusers", PEFT, [[DIFFUSERS, after("transformer.")]]],
  ["ComfyUI", "ComfyUI", PEFT, [
    [ORIGINAL, after("diffusion_model.")],
    ...[
      [CLIP, after("text_encoders.clip_l.transformer.")],
      [T5, after("text_encoders.t5xxl.transformer.")],
    ] as const,
  ]],
  ["BFL", "original FLUX.1", PEFT, [[ORIGINAL, after("")]]],
  ["XLabs", "XLabs", pair(".down.weight", ".up.weight"), [[XLABS, after("")]]],
  // SimpleTuner writes LyCORIS' files with diffusers' names, kohya's scripts with the authors'.
  ["LyCORIS", "LyCORIS", KOHYA, [[DIFFUSERS, flat("lycoris_")]]],
  ["LyCORIS, LoKr", "LyCORIS (LoKr)", LOKR, [[DIFFUSERS, flat("lycoris_")]]],
  ["LyCORIS, LoHa", "LyCORIS (LoHa)", LOHA, [[DIFFUSERS, flat("lycoris_")]]],
  ["kohya, LoKr", "kohya (LoKr)", LOKR, [[ORIGINAL, flat("lora_unet_")]]],
];

Deno.test("LoRAs of FLUX.1 lead to layers under the names of every trainer", async (t) => {
  using pipeline = await openPipeline(new Golden("flux1/dev").folder);
  for (const [trainer, dialect, change, files] of TRAINERS) {
    await t.step(trainer, async () => {
      const tensors: Tensors = Object.assign(
        {},
        ...files.flatMap(([layers, name]) =>
          layers.map(([module, rows, columns]) => tensorsOf(name(module), change(rows, columns)))
        ),
      );
      const lora = await readTensors(tensors, pipeline.adaptable);
      assert.deepEqual(lora.unmatchedKeys, []);
      assert.equal(lora.dialect, dialect);
      const targets = new Set(lora.changes.map(({ target }) => target));
      assert.equal(targets.has("text_encoder"), files.some(([layers]) => layers === CLIP));
      assert.equal(targets.has("text_encoder_2"), files.some(([layers]) => layers === T5));
    });
  }
});
