import { strict as assert } from "node:assert";
import { madeUpComponent } from "../../tests/support/adaptable.ts";
import {
  type FileOptions,
  numbers,
  readTensors,
  type Tensors,
} from "../../tests/support/lora_files.ts";
import { changeReference, randomTensor } from "../../tests/support/lora_reference.ts";
import { ORIGINAL_FLUX2 } from "../families/flux2/layouts.ts";
import { ORIGINAL_WAN } from "../families/wan/layouts.ts";
import { ORIGINAL_Z_IMAGE } from "../families/z_image/layouts.ts";
import type { AdaptableComponent, Lora, LoraComponent, LoraTensor, ModuleChange } from "./types.ts";

const WAN = madeUpComponent("Wan", {
  "blocks.0.attn1.to_q": [8, 8],
  "blocks.0.attn1.to_out.0": [8, 8],
  "blocks.0.ffn.net.0.proj": [16, 8],
  "blocks.0.norm2": [8],
  "blocks.0.scale_shift_table": [1, 6, 8],
  "condition_embedder.time_embedder.linear_1": [8, 8],
}, [ORIGINAL_WAN]);

const ENCODER = madeUpComponent(
  "Wan",
  {
    "encoder.block.0.layer.0.SelfAttention.q": [8, 8],
    "model.layers.0.self_attn.q_proj": [8, 8],
  },
  [],
  "text_encoder",
);

function read(
  tensors: Tensors,
  components: readonly AdaptableComponent[] = [WAN, ENCODER],
  options: FileOptions = {},
): Promise<Lora> {
  return readTensors(tensors, components, options);
}

const DOWN = randomTensor([2, 8], 1);
const UP = randomTensor([8, 2], 2);

/** What the factors add, scaled. */
function lowRank(scale: number, up = UP, down = DOWN): Float64Array {
  return changeReference({ kind: "low-rank", scale, up, down }, up.shape[0]!);
}

function assertDelta(change: ModuleChange, expected: Float64Array, rows = 8): void {
  const sum = new Float64Array(expected.length);
  for (const part of change.weight) {
    changeReference(part, rows).forEach((value, i) => sum[i]! += value);
  }
  const worst = Math.max(...sum.map((value, i) => Math.abs(value - expected[i]!)));
  assert.ok(worst < 1e-6, `${change.module}: off by ${worst}`);
}

/** Keys of one pair of factors, as trainers write them, and the module that they mean. */
const DIALECTS: readonly {
  readonly dialect: string;
  readonly down: string;
  readonly up: string;
  readonly alpha?: string;
  readonly module: string;
  readonly target?: LoraComponent;
}[] = [
  ...[
    ["PEFT", "base_model.model.blocks.0.attn1.to_q.", "blocks.0.attn1.to_q"],
    ["PEFT", "base_model.model.transformer.blocks.0.attn1.to_q.", "blocks.0.attn1.to_q"],
    ["diffusers", "transformer.blocks.0.attn1.to_out.0.", "blocks.0.attn1.to_out.0"],
    ["diffusers", "blocks.0.attn1.to_q.", "blocks.0.attn1.to_q"],
    ["ComfyUI", "diffusion_model.blocks.0.self_attn.o.", "blocks.0.attn1.to_out.0"],
    ["ComfyUI", "model.diffusion_model.blocks.0.ffn.0.", "blocks.0.ffn.net.0.proj"],
    ["original Wan", "blocks.0.self_attn.q.", "blocks.0.attn1.to_q"],
    ["original Wan", "time_embedding.0.", "condition_embedder.time_embedder.linear_1"],
  ].flatMap(([dialect, start, module]) =>
    [
      ["lora_A.weight", "lora_B.weight"],
      ["lora_A.default.weight", "lora_B.default.weight"],
      ["lora_down.weight", "lora_up.weight"],
      ["lora.down.weight", "lora.up.weight"],
      ["lora_linear_layer.down.weight", "lora_linear_layer.up.weight"],
      ["lora_A", "lora_B"],
    ].map(([down, up]) => ({
      dialect: dialect!,
      down: start! + down,
      up: start! + up,
      alpha: `${start}alpha`,
      module: module!,
    }))
  ),
  ...[
    ["kohya", "lora_unet_blocks_0_self_attn_q", "blocks.0.attn1.to_q"],
    ["kohya", "lora_unet_blocks_0_ffn_0", "blocks.0.ffn.net.0.proj"],
    ["kohya", "lora_unet_blocks_0_attn1_to_out_0", "blocks.0.attn1.to_out.0"],
    ["kohya", "lora_unet__blocks_0_self_attn_q", "blocks.0.attn1.to_q"],
    ["kohya", "lora_transformer_blocks_0_attn1_to_q", "blocks.0.attn1.to_q"],
    ["LyCORIS", "lycoris_blocks_0_attn1_to_q", "blocks.0.attn1.to_q"],
    [
      "kohya",
      "lora_te_encoder_block_0_layer_0_SelfAttention_q",
      "encoder.block.0.layer.0.SelfAttention.q",
    ], // deno-fmt-ignore
    ["kohya", "lora_te1_layers_0_self_attn_q_proj", "model.layers.0.self_attn.q_proj"],
    ["kohya", "lora_te1_model_layers_0_self_attn_q_proj", "model.layers.0.self_attn.q_proj"],
    [
      "diffusers",
      "text_encoder.encoder.block.0.layer.0.SelfAttention.q",
      "encoder.block.0.layer.0.SelfAttention.q",
    ], // deno-fmt-ignore
    ["ComfyUI", "text_encoders.qwen3_4b.transformer.model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.q_proj"], // deno-fmt-ignore
  ].map(([dialect, start, module]) => ({
    dialect: dialect!,
    down: `${start}.lora_down.weight`,
    up: `${start}.lora_up.weight`,
    alpha: `${start}.alpha`,
    module: module!,
    target: /^(encoder|model)\./.test(module!) ? "text_encoder" as const : "transformer" as const,
  })),
  {
    dialect: "diffusers",
    down: "blocks.0.attn1.processor.to_q_lora.down.weight",
    up: "blocks.0.attn1.processor.to_q_lora.up.weight",
    module: "blocks.0.attn1.to_q",
  },
  {
    dialect: "diffusers",
    down: "unet.blocks.0.attn1.processor.to_out_lora.down.weight",
    up: "unet.blocks.0.attn1.processor.to_out_lora.up.weight",
    module: "blocks.0.attn1.to_out.0",
  },
];

for (const { dialect, down, up, alpha, module, target = "transformer" } of DIALECTS) {
  Deno.test(`readLora() knows ${dialect}: ${down}`, async () => {
    const rows = module.includes("ffn") ? 16 : 8;
    const tensors = { [down]: DOWN, [up]: randomTensor([rows, 2], 3) };
    const plain = await read(tensors);
    assert.equal(plain.dialect, dialect);
    assert.deepEqual(plain.unmatchedKeys, []);
    assert.deepEqual(plain.changes.map((each) => [each.target, each.module]), [[target, module]]);
    assertDelta(plain.changes[0]!, lowRank(1, tensors[up]), rows);
    if (!alpha) return;
    const { changes } = await read({ ...tensors, [alpha]: numbers(3) });
    assertDelta(changes[0]!, lowRank(1.5, tensors[up]), rows);
  });
}

Deno.test("readLora() scales by the alpha asked for, the module's own, the settings', or by 1, in this order", async () => {
  const module = "base_model.model.blocks.0.attn1.to_q";
  const factors = { [`${module}.lora_A.weight`]: DOWN, [`${module}.lora_B.weight`]: UP };
  const withAlpha = { ...factors, [`${module}.alpha`]: numbers(4) };
  const unprefixed = renamed(factors, "base_model.model.", "");
  const plain = { peft_type: "LORA", r: 2, lora_alpha: 6 };
  const metadata = (fields: unknown) => ({ lora_adapter_metadata: JSON.stringify(fields) });
  const cases: [string, Tensors, FileOptions, number][] = [
    ["nothing", factors, {}, 1],
    ["own alpha", withAlpha, {}, 2],
    ["own before settings", withAlpha, { config: plain }, 2],
    ["asked for", withAlpha, { config: plain, alpha: 1 }, 0.5],
    ["settings", factors, { config: plain }, 3],
    ["stabilised", factors, { config: { ...plain, use_rslora: true } }, 6 / Math.SQRT2],
    [
      "asked for, stabilised",
      factors,
      { config: { ...plain, use_rslora: true }, alpha: 2 },
      Math.SQRT2,
    ], // deno-fmt-ignore
    ["pattern", factors, { config: { ...plain, alpha_pattern: { "attn1.to_q": 1 } } }, 0.5],
    ["first pattern", factors, {
      config: { ...plain, alpha_pattern: { "attn1.to_q": 1, to_q: 2, "^blocks.0.attn1.to_q": 3 } },
    }, 0.5],
    ["whole pattern", factors, {
      config: { ...plain, alpha_pattern: { "^blocks.0.attn1.to_q": 1 } },
    }, 0.5], // deno-fmt-ignore
    ["other pattern", factors, { config: { ...plain, alpha_pattern: { "1.to_q": 1 } } }, 3],
    ["rank pattern", factors, { config: { ...plain, r: 9, rank_pattern: { to_q: 2 } } }, 3],
    ["metadata", factors, { metadata: { lora_alpha: "8" } }, 4],
    ["metadata before config", factors, { config: plain, metadata: { lora_alpha: "8" } }, 4],
    ["config with a byte order mark", factors, { config: `\ufeff${JSON.stringify(plain)}` }, 3],
    ["config of another file", unprefixed, { config: plain, name: "a.safetensors" }, 1],
    ["config of PEFT's keys", factors, { config: plain, name: "a.safetensors" }, 3],
    ["no number in the metadata", withAlpha, { metadata: { lora_alpha: "None" } }, 2],
    ["diffusers' metadata", { ...renamed(factors, "base_model.model.", "transformer.") }, {
      metadata: metadata({ "transformer.r": 2, "transformer.lora_alpha": 5 }),
    }, 2.5], // deno-fmt-ignore
    ["another component's", { ...renamed(factors, "base_model.model.", "transformer.") }, { metadata: metadata({ "text_encoder.r": 2, "text_encoder.lora_alpha": 5 }) }, 1], // deno-fmt-ignore
    ["alpha as an integer", { ...factors, [`${module}.alpha`]: int64(4) }, {}, 2],
  ];
  for (const [name, tensors, options, scale] of cases) {
    const { changes } = await read(tensors, [WAN], options);
    const actual = changes[0]!.weight[0]!.scale;
    assert.ok(Math.abs(actual - scale) < 1e-12, `${name}: ${actual}, expected ${scale}`);
  }
});

function renamed(tensors: Tensors, from: string, to: string): Tensors {
  return Object.fromEntries(
    Object.entries(tensors).map(([key, tensor]) => [key.replace(from, to), tensor]),
  );
}

function int64(value: number): LoraTensor {
  const bytes = new Uint8Array(BigInt64Array.of(BigInt(value)).buffer);
  return { shape: [], dtype: "i64" as "f32", bytes };
}

Deno.test("readLora() finds modules behind the names of wrappers, and behind a prefix that all names share", async () => {
  const modules = ["blocks.0.attn1.to_q", "blocks.0.attn1.to_out.0"];
  const wrap = [
    (name: string) => `transformer._orig_mod.${name}`,
    (name: string) => `_orig_mod.${name}`,
    (name: string) => `module.${name}`,
    (name: string) => `pipe.dit.${name}`,
    (name: string) => `dit.module._orig_mod.${name}`,
    (name: string) => name.replace("blocks.0.", "blocks.0._fsdp_wrapped_module."),
  ];
  for (const wrapped of wrap) {
    const names = modules.map(wrapped);
    const { changes, unmatchedKeys } = await read(Object.fromEntries(
      names.flatMap((name) => [[`${name}.lora_A.weight`, DOWN], [`${name}.lora_B.weight`, UP]]),
    ));
    assert.deepEqual(changes.map(({ module }) => module), modules, names[0]);
    assert.deepEqual(unmatchedKeys, []);
  }
});

Deno.test("readLora() means every denoiser where a key names none, and one where it names it", async () => {
  const twin = (target: LoraComponent) => ({ ...WAN, target });
  const components = [WAN, twin("transformer_2"), twin("critic"), ENCODER];
  const key = (prefix: string) => ({
    [`${prefix}blocks.0.attn1.to_q.lora_A.weight`]: DOWN,
    [`${prefix}blocks.0.attn1.to_q.lora_B.weight`]: UP,
  });
  const targets = async (tensors: Tensors) =>
    (await read(tensors, components)).changes.map(({ target }) => target);
  assert.deepEqual(await targets(key("")), ["transformer", "transformer_2", "critic"]);
  assert.deepEqual(await targets(key("transformer.")), ["transformer", "transformer_2", "critic"]);
  assert.deepEqual(await targets(key("transformer_2.")), ["transformer_2"]);
  assert.deepEqual(await targets(key("fake_score_transformer.")), ["critic"]);
  const both = { ...key("transformer."), ...key("transformer_2.") };
  assert.deepEqual(await targets(both), ["transformer", "transformer_2"]);
  const { changes, byteLength } = await read(key(""), components);
  assert.equal(byteLength, DOWN.bytes.byteLength + UP.bytes.byteLength);
  const [first, second] = changes.map(({ weight }) => weight[0]!);
  assert.ok(first?.kind === "low-rank" && second?.kind === "low-rank" && first.up === second.up);
});

Deno.test("readLora() lists what leads to nothing, in the order of the file", async () => {
  const encoder = "text_encoder.encoder.block.0.layer.0.SelfAttention.q";
  const tensors = {
    "lora_te2_text_model_encoder_layers_0_mlp_fc1.alpha": numbers(1),
    "blocks.0.attn1.to_q.lora_A.weight": DOWN,
    "blocks.0.attn1.to_q.lora_B.weight": UP,
    "step": numbers(7),
    [`${encoder}.lora_A.weight`]: DOWN,
    [`${encoder}.lora_B.weight`]: UP,
    "blocks.7.attn1.to_q.oft_blocks": DOWN,
  };
  const withEncoder = await read(tensors);
  assert.deepEqual(withEncoder.unmatchedKeys, [
    "lora_te2_text_model_encoder_layers_0_mlp_fc1.alpha",
    "step",
    "blocks.7.attn1.to_q.oft_blocks",
  ]);
  assert.equal(withEncoder.changes.length, 2);
  const without = await read(tensors, [WAN]);
  assert.equal(without.changes.length, 1);
  assert.ok(without.unmatchedKeys.includes(`${encoder}.lora_A.weight`));
  const biasless = { ...WAN, modules: WAN.modules.map((each) => ({ ...each, hasBias: false })) };
  const bias = {
    "blocks.0.attn1.to_q.diff": randomTensor([8, 8], 4),
    "blocks.0.attn1.to_q.diff_b": randomTensor([8], 5),
  };
  assert.deepEqual((await read(bias, [biasless])).unmatchedKeys, ["blocks.0.attn1.to_q.diff_b"]);
  assert.deepEqual((await read(bias, [WAN])).unmatchedKeys, []);
});

Deno.test("readLora() adds differences to weights, norms, biases and parameters", async () => {
  const table = randomTensor([1, 6, 8], 4);
  const norm = randomTensor([8], 5);
  const bias = randomTensor([8], 6);
  const { changes, dialect } = await read({
    "diffusion_model.blocks.0.diff_m": table,
    "lora_unet_blocks_0_norm3.w_norm": norm,
    "lora_unet_blocks_0_norm3.b_norm": bias,
  });
  assert.deepEqual(changes.map(({ module }) => module), [
    "blocks.0.scale_shift_table",
    "blocks.0.norm2",
  ]);
  assert.equal(dialect, "ComfyUI (differences)");
  assert.deepEqual(changes.map(({ weight }) => weight[0]!.kind), ["whole", "whole"]);
  assert.deepEqual([...changes[1]!.bias!.bytes], [...bias.bytes]);
});

Deno.test("readLora() puts tensors into shared memory", async () => {
  const { changes } = await read({
    "blocks.0.attn1.to_q.lora_A.weight": DOWN,
    "blocks.0.attn1.to_q.lora_B.weight": UP,
  });
  const [part] = changes[0]!.weight;
  assert.ok(part?.kind === "low-rank" && part.up.bytes.buffer instanceof SharedArrayBuffer);
});

/** FLUX.2 with blocks as it has them, joined differently by its own code and by diffusers. */
const FLUX2 = madeUpComponent("FLUX.2", {
  "transformer_blocks.0.attn.to_q": [8, 8],
  "transformer_blocks.0.attn.to_k": [8, 8],
  "transformer_blocks.0.attn.to_v": [8, 8],
  "transformer_blocks.0.attn.to_add_out": [8, 8],
  "transformer_blocks.0.ff.linear_in": [24, 8],
  "single_transformer_blocks.0.attn.to_qkv_mlp_proj": [48, 8],
  "norm_out.linear": [16, 8],
}, [ORIGINAL_FLUX2]);

Deno.test("readLora() cuts joined rows of every kind of change", async () => {
  const name = "double_blocks.0.img_attn.qkv";
  const kinds: Record<string, Tensors> = {
    factors: {
      [`${name}.lora_A.weight`]: DOWN,
      [`${name}.lora_B.weight`]: randomTensor([24, 2], 3),
    },
    difference: { [`${name}.diff`]: randomTensor([24, 8], 4) },
    LoHa: {
      [`${name}.hada_w1_a`]: randomTensor([24, 2], 5),
      [`${name}.hada_w1_b`]: randomTensor([2, 8], 6),
      [`${name}.hada_w2_a`]: randomTensor([24, 2], 7),
      [`${name}.hada_w2_b`]: randomTensor([2, 8], 8),
    },
    // Blocks of 2, 6 and 12 rows: whole in a module, across its edges, larger than it.
    ...Object.fromEntries([12, 4, 2].map((blocks) => [`LoKr of ${blocks} blocks`, {
      [`${name}.lokr_w1`]: randomTensor([blocks, 2], 9, { scale: 1 }),
      [`${name}.lokr_w2_a`]: randomTensor([24 / blocks, 2], 10, { scale: 1 }),
      [`${name}.lokr_w2_b`]: randomTensor([2, 4], 11, { scale: 1 }),
    }])),
  };
  const joined = { ...FLUX2, modules: [{ ...FLUX2.modules[0]!, name: "joined", shape: [24, 8] }] };
  for (const [kind, tensors] of Object.entries(kinds)) {
    const { changes } = await read(tensors, [FLUX2]);
    assert.deepEqual(
      changes.map(({ module }) => module),
      ["q", "k", "v"].map((each) => `transformer_blocks.0.attn.to_${each}`),
    );
    const whole = await read(renamed(tensors, name, "joined"), [joined]);
    const expected = changeReference(whole.changes[0]!.weight[0]!, 24);
    changes.forEach((change, i) => assertDelta(change, expected.subarray(i * 64, (i + 1) * 64)));
    const sum = changes.flatMap(({ weight }) => weight).length;
    assert.equal(sum, { "LoKr of 4 blocks": 6, "LoKr of 2 blocks": 4 }[kind] ?? 3, kind);
  }
});

Deno.test("readLora() cuts biases and lengths of joined modules, and leaves columns' to none", async () => {
  const name = "double_blocks.0.img_attn.qkv";
  const tensors: Tensors = {
    [`${name}.lora_down.weight`]: DOWN,
    [`${name}.lora_up.weight`]: randomTensor([24, 2], 3),
    [`${name}.dora_scale`]: randomTensor([24, 1], 4),
    [`${name}.diff_b`]: randomTensor([24], 5),
  };
  const { changes } = await read(tensors, [FLUX2]);
  changes.forEach((change, i) => {
    const cut = (key: string) => [...tensors[`${name}.${key}`]!.bytes.slice(i * 32, (i + 1) * 32)];
    assert.deepEqual([...change.bias!.bytes], cut("diff_b"));
    assert.deepEqual([...change.magnitude!.lengths.bytes], cut("dora_scale"));
    assert.deepEqual(change.magnitude!.lengths.shape, [8]);
  });
  await assert.rejects(
    read({ ...tensors, [`${name}.dora_scale`]: randomTensor([1, 8], 4) }, [FLUX2]),
    /sets the lengths of columns of several joined modules/,
  );
});

Deno.test("readLora() swaps halves back that the original has the other way round", async () => {
  const up = randomTensor([16, 2], 3);
  const bias = randomTensor([16], 4);
  const { changes } = await read({
    "final_layer.adaLN_modulation.1.lora_A.weight": DOWN,
    "final_layer.adaLN_modulation.1.lora_B.weight": up,
    "final_layer.adaLN_modulation.1.diff_b": bias,
  }, [FLUX2]);
  const theirs = lowRank(1, up);
  const ours = Float64Array.from([...theirs.subarray(64), ...theirs.subarray(0, 64)]);
  assertDelta(changes[0]!, ours, 16);
  const expected = [...bias.bytes.slice(32), ...bias.bytes.slice(0, 32)];
  assert.deepEqual([...changes[0]!.bias!.bytes], expected);
});

Deno.test("readLora() takes FLUX.2's modules by every name: original, underscores, joined by diffusers", async () => {
  const names = {
    "lora_unet_single_blocks_0_linear1": "single_transformer_blocks.0.attn.to_qkv_mlp_proj",
    "diffusion_model.single_blocks.0.linear1": "single_transformer_blocks.0.attn.to_qkv_mlp_proj",
    "lycoris_single_transformer_blocks_0_attn_to_qkv_mlp_proj":
      "single_transformer_blocks.0.attn.to_qkv_mlp_proj",
    "base_model.model.double_blocks.0.img_mlp.0": "transformer_blocks.0.ff.linear_in",
    "transformer.transformer_blocks.0.attn.to_qkv": "transformer_blocks.0.attn.to_q",
  };
  for (const [name, module] of Object.entries(names)) {
    const rows = name.includes("single") ? 48 : 24;
    const { changes } = await read({
      [`${name}.lora_down.weight`]: DOWN,
      [`${name}.lora_up.weight`]: randomTensor([rows, 2], 3),
    }, [FLUX2]);
    assert.equal(changes[0]!.module, module);
  }
});

Deno.test("readLora() takes separate modules before their joined copy, and lists the copy", async () => {
  const separate = ["to_q", "to.k", "to_v"].flatMap((name) => [
    [`transformer_blocks.0.attn.${name}.lora_A.weight`, DOWN] as const,
    [`transformer_blocks.0.attn.${name}.lora_B.weight`, UP] as const,
  ]);
  const joined = {
    "double_blocks.0.img_attn.qkv.lora_A.weight": DOWN,
    "double_blocks.0.img_attn.qkv.lora_B.weight": randomTensor([24, 2], 3),
  };
  const { changes, unmatchedKeys } = await read(
    { ...joined, ...Object.fromEntries(separate) },
    [FLUX2],
  );
  assert.deepEqual(unmatchedKeys, Object.keys(joined));
  assert.equal(changes.length, 3);
  for (const change of changes) assertDelta(change, lowRank(1));
  await assert.rejects(
    read({ ...joined, ...Object.fromEntries(separate.slice(0, 2)) }, [FLUX2]),
    /are the same module/,
  );
});

Deno.test("readLora() takes Z-Image's attention.to_out.0 before the attention.out that repeats it", async () => {
  const zImage = madeUpComponent("Z-Image", { "layers.0.attention.to_out.0": [8, 8] }, [
    ORIGINAL_Z_IMAGE,
  ]);
  const repeat = {
    "diffusion_model.layers.0.attention.out.lora.down.weight": DOWN,
    "diffusion_model.layers.0.attention.out.lora.up.weight": randomTensor([8, 2], 3),
  };
  const own = {
    "diffusion_model.layers.0.attention.to_out.0.lora.down.weight": DOWN,
    "diffusion_model.layers.0.attention.to_out.0.lora.up.weight": UP,
  };
  const { changes, unmatchedKeys } = await read({ ...repeat, ...own }, [zImage]);
  assert.deepEqual(unmatchedKeys, Object.keys(repeat));
  assertDelta(changes[0]!, lowRank(1));
  assert.equal((await read(repeat, [zImage])).changes[0]!.module, "layers.0.attention.to_out.0");
});
