/** What files of text encoders say of themselves beside their tensors. */
import assert from "node:assert/strict";
import { type MemoryTensor, memoryTensors } from "../../tests/support/memory_tensors.ts";
import type { GgufValue } from "../../runtime/mod.ts";
import type { ComponentFormat } from "../checkpoints/component_format.ts";
import { recognise } from "../checkpoints/recognise.ts";
import { parseConfig } from "../config.ts";
import { CLIP_TEXT_FORMAT, OPEN_CLIP_G_FORMAT, OPEN_CLIP_H_FORMAT } from "./clip_formats.ts";
import { CLIP_TEXT_CONFIG } from "./clip_text.ts";
import { GEMMA2_FORMAT } from "./gemma2.ts";
import { GEMMA3_FORMAT } from "./gemma3_config.ts";
import { MINISTRAL3_CONFIG, MINISTRAL3_FORMAT, MISTRAL_SMALL_FORMAT } from "./ministral3.ts";
import { QWEN2_5_VL_FORMAT } from "./qwen2_5_vl.ts";
import { QWEN3_CONFIG, QWEN3_FORMAT } from "./qwen3.ts";
import { QWEN3_VL_CONFIG, QWEN3_VL_FORMAT } from "./qwen3_vl.ts";
import { T5_FORMAT, UMT5_FORMAT } from "./t5.ts";

type Shapes = Record<string, MemoryTensor>;
type Metadata = Record<string, GgufValue>;

const HEAD = 128;

function layersOf(count: number, layer: (i: number) => Shapes): Shapes {
  return Object.assign({}, ...Array.from({ length: count }, (_, i) => layer(i)));
}

/** A language model of two heads of queries and one of keys, as llama.cpp names it. */
function qwen(layers: number, layer: (i: number) => Shapes): Shapes {
  return {
    "token_embd.weight": [100, 256],
    "output_norm.weight": [256],
    ...layersOf(layers, (i) => ({
      [`blk.${i}.attn_q.weight`]: [2 * HEAD, 256],
      [`blk.${i}.attn_k.weight`]: [HEAD, 256],
      [`blk.${i}.ffn_gate.weight`]: [512, 256],
      ...layer(i),
    })),
  };
}

const QWEN3 = qwen(3, (i) => ({ [`blk.${i}.attn_q_norm.weight`]: [HEAD] }));
const QWEN2_5 = qwen(2, (i) => ({ [`blk.${i}.attn_q.bias`]: [2 * HEAD] }));
const UMT5: Shapes = {
  "token_embd.weight": [100, 64],
  "enc.output_norm.weight": [64],
  ...layersOf(2, (i) => ({
    [`enc.blk.${i}.attn_q.weight`]: [64, 64],
    [`enc.blk.${i}.attn_rel_b.weight`]: [32, 4],
    [`enc.blk.${i}.ffn_gate.weight`]: [96, 64],
  })),
};

function configOf(format: ComponentFormat, shapes: Shapes, metadata: Metadata = {}) {
  const [component] = recognise(memoryTensors(shapes), [format]);
  return component!.format.config(component!.tensors, new Map(Object.entries(metadata)));
}

Deno.test("formats of text encoders take the numbers that a GGUF file states, and constants for others", () => {
  const float = Math.fround;
  for (
    const [format, shapes, name] of [
      [QWEN3_FORMAT, QWEN3, "qwen3"],
      [QWEN2_5_VL_FORMAT, QWEN2_5, "qwen2vl"],
    ] as const
  ) {
    const plain = configOf(format, shapes);
    assert.deepEqual([plain["rope_theta"], plain["rms_norm_eps"]], [1e6, 1e-6]);
    const stated = configOf(format, shapes, {
      "general.architecture": name,
      [`${name}.rope.freq_base`]: 5e6,
      [`${name}.attention.layer_norm_rms_epsilon`]: float(1e-5),
      [`${name}.block_count`]: plain["num_hidden_layers"] as number,
      [`${name}.attention.head_count`]: 2,
      [`${name}.attention.head_count_kv`]: 1,
      [`${name}.rope.scaling.type`]: "none",
    });
    assert.deepEqual([stated["rope_theta"], stated["rms_norm_eps"]], [5e6, 1e-5]);
  }
  assert.equal(configOf(UMT5_FORMAT, UMT5)["layer_norm_epsilon"], 1e-6);
  const t5 = { "general.architecture": "t5", "t5.attention.layer_norm_rms_epsilon": float(1e-5) };
  assert.equal(configOf(UMT5_FORMAT, UMT5, t5)["layer_norm_epsilon"], 1e-5);
});

Deno.test("Qwen3-VL's positions have the base that its files say, or that of the published models", () => {
  const theta = (json: object) => QWEN3_VL_CONFIG.parse(json).rope_theta;
  const mrope = { rope_type: "default", mrope_interleaved: true, mrope_section: [24, 20, 20] };
  assert.equal(theta({ model_type: "qwen3_vl", text_config: { rope_scaling: mrope } }), 5e6);
  assert.equal(theta({ text_config: { rope_theta: 1e6, rope_scaling: mrope } }), 1e6);
  assert.equal(theta({ text_config: { rope_parameters: { ...mrope, rope_theta: 4e6 } } }), 4e6);
  const metadata = new Map([["general.architecture", "qwen3vl"]]);
  const file = Object.assign(memoryTensors(QWEN3), { metadata });
  const [found] = recognise(file, [QWEN3_FORMAT, QWEN3_VL_FORMAT]);
  assert.equal(found!.format, QWEN3_VL_FORMAT);
  assert.equal(found!.format.config(found!.tensors)["rope_theta"], 5e6);
  assert.deepEqual(recognise(memoryTensors(QWEN3), [QWEN3_VL_FORMAT]), []);
});

Deno.test("QWEN2_5_VL_FORMAT takes the heads that a GGUF file states", () => {
  const stated = {
    "general.architecture": "qwen2vl",
    "qwen2vl.attention.head_count": 4,
    "qwen2vl.attention.head_count_kv": 2,
  };
  const config = configOf(QWEN2_5_VL_FORMAT, QWEN2_5, stated);
  assert.deepEqual([config["num_attention_heads"], config["num_key_value_heads"]], [4, 2]);
});

Deno.test("formats of text encoders refuse a file whose statements its tensors contradict", () => {
  const qwen3 = (key: string, value: GgufValue) => () =>
    configOf(QWEN3_FORMAT, QWEN3, { "general.architecture": "qwen3", [`qwen3.${key}`]: value });
  assert.throws(
    qwen3("block_count", 36),
    /its qwen3\.block_count is 36, its tensors tell 3; the file/,
  );
  assert.throws(qwen3("attention.head_count", 32), /head_count is 32, its tensors tell 2/);
  assert.throws(qwen3("embedding_length", 2560), /embedding_length is 2560, its tensors tell 256/);
  const t5 = { "general.architecture": "t5encoder", "t5encoder.block_count": 24 };
  assert.throws(() => configOf(UMT5_FORMAT, UMT5, t5), /t5encoder\.block_count is 24/);
});

Deno.test("formats of text encoders refuse scaled rotary positions, and take those that scale nothing", () => {
  const scaled = (scaling: Metadata) => () =>
    configOf(QWEN3_FORMAT, QWEN3, {
      "general.architecture": "qwen3",
      ...Object.fromEntries(Object.entries(scaling).map(([key, value]) => [`qwen3.${key}`, value])),
    });
  const yarn = { "rope.scaling.type": "yarn", "rope.scaling.factor": 4 };
  assert.throws(
    scaled(yarn),
    /it scales rotary positions \(qwen3\.rope\.scaling is yarn, 4\), which/,
  );
  assert.throws(scaled({ "rope.scaling.factor": 2 }), /is linear, 2\)/);
  assert.throws(scaled({ "rope.scale_linear": 4 }), /is linear, 4\)/);
  scaled({ "rope.scaling.type": "none", "rope.scaling.factor": 4 })();
  scaled({ "rope.scaling.type": "linear", "rope.scaling.factor": 1 })();
});

Deno.test("formats of text encoders refuse a part of a model for the layers, the norm or the modules that it lacks", () => {
  const without = (shapes: Shapes, pattern: RegExp) =>
    Object.fromEntries(Object.entries(shapes).filter(([name]) => !pattern.test(name)));
  const cases: [ComponentFormat, Shapes, RegExp, RegExp][] = [
    [
      QWEN3_FORMAT,
      QWEN3,
      /output_norm/,
      /lacks "norm\.weight"; it is incomplete or a part of a mod/,
    ],
    [QWEN3_FORMAT, QWEN3, /blk\.1\./, /lacks "layers\.1"/],
    [QWEN3_FORMAT, QWEN3, /blk\.2\.ffn/, /lacks "layers\.2\.mlp\.gate_proj\.weight"/],
    [QWEN2_5_VL_FORMAT, QWEN2_5, /output_norm/, /lacks "norm\.weight"/],
    [QWEN2_5_VL_FORMAT, QWEN2_5, /blk\.1\.attn_k/, /lacks "layers\.1\.self_attn\.k_proj\.weight"/],
    [UMT5_FORMAT, UMT5, /enc\.output_norm/, /lacks "encoder\.final_layer_norm\.weight"/],
    [UMT5_FORMAT, UMT5, /blk\.1\.ffn/, /lacks "encoder\.block\.1\.layer\.1/],
    [T5_FORMAT, without(UMT5, /blk\.1\.attn_rel/), /blk\.1\.attn_q/, /block\.1\.layer\.0\.SelfAtt/],
  ];
  for (const [format, shapes, pattern, message] of cases) {
    configOf(format, shapes);
    assert.throws(() => configOf(format, without(shapes, pattern)), message);
  }
});

Deno.test("QWEN3_CONFIG takes rotary positions that are said to be unscaled, and refuses others", () => {
  const rope = (rope_scaling: unknown) => QWEN3_CONFIG.safeParse({ rope_scaling });
  for (
    const scaling of [null, undefined, { rope_type: "default" }, { type: "default", factor: 1 }]
  ) {
    assert.ok(rope(scaling).success, JSON.stringify(scaling));
  }
  for (const scaling of [{ rope_type: "yarn", factor: 4 }, { type: "linear" }, { factor: 4 }, {}]) {
    assert.match(String(rope(scaling).error), /scaled rotary positions are not supported/);
  }
});

/** A tower as transformers names it, or as OpenCLIP does. */
function clipTower(dim: number, layers: number, isOpenClip: boolean): Shapes {
  const [wide, places] = [4 * dim, 77];
  if (!isOpenClip) {
    return {
      "embeddings.token_embedding.weight": [49408, dim],
      "embeddings.position_embedding.weight": [places, dim],
      ...layersOf(layers, (i) => ({
        [`encoder.layers.${i}.self_attn.q_proj.weight`]: [dim, dim],
        [`encoder.layers.${i}.mlp.fc1.weight`]: [wide, dim],
      })),
    };
  }
  return {
    "token_embedding.weight": [49408, dim],
    "positional_embedding": [places, dim],
    "text_projection": [dim, dim],
    ...layersOf(layers, (i) => ({
      [`transformer.resblocks.${i}.attn.in_proj_weight`]: [3 * dim, dim],
      [`transformer.resblocks.${i}.mlp.c_fc.weight`]: [wide, dim],
    })),
  };
}

/** As stable-diffusion.cpp converts names: those of transformers, but for what OpenCLIP has in one. */
function sdCppTower(dim: number, layers: number): Shapes {
  const own = Object.entries(clipTower(dim, layers, false)).map(([name, shape]) =>
    [
      name.replace("q_proj", "in_proj"),
      name.includes("q_proj") ? [3 * dim, dim] : shape,
    ] as const
  );
  return { ...Object.fromEntries(own), "text_projection": [dim, dim] };
}

function prefixed(prefix: string, shapes: Shapes): Shapes {
  return Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [prefix + name, shape]));
}

const CLIP_FORMATS = [CLIP_TEXT_FORMAT, OPEN_CLIP_H_FORMAT, OPEN_CLIP_G_FORMAT];

Deno.test("formats of CLIP's towers know those of Stable Diffusion 1, 2 and XL under the names of whole and single files", () => {
  const large = ["text_encoder", "CLIPTextModel", 768, 12, "quick_gelu"];
  const huge = ["text_encoder", "CLIPTextModel", 1024, 23, "gelu"];
  const giant = ["text_encoder_2", "CLIPTextModelWithProjection", 1280, 32, "gelu"];
  const giantHf = {
    ...prefixed("text_model.", clipTower(1280, 32, false)),
    "text_projection.weight": [1280, 1280],
  };
  const cases: [Shapes, ...unknown[][]][] = [
    [prefixed("cond_stage_model.transformer.text_model.", clipTower(768, 12, false)), large],
    [prefixed("cond_stage_model.transformer.", clipTower(768, 12, false)), large],
    [prefixed("cond_stage_model.model.", clipTower(1024, 24, true)), huge],
    [prefixed("text_model.", clipTower(1024, 23, false)), huge],
    [prefixed("text_model.", clipTower(1024, 24, false)), huge],
    [
      {
        ...prefixed(
          "conditioner.embedders.0.transformer.text_model.",
          clipTower(768, 12, false),
        ),
        ...prefixed("conditioner.embedders.1.model.", clipTower(1280, 32, true)),
      },
      large,
      giant,
    ],
    [prefixed("conditioner.embedders.0.model.", clipTower(1280, 32, true)), giant],
    [giantHf, giant],
    [prefixed("cond_stage_model.1.transformer.text_model.", sdCppTower(1280, 32)), giant],
    [prefixed("cond_stage_model.transformer.text_model.", sdCppTower(1024, 24)), huge],
  ];
  for (const [shapes, ...expected] of cases) {
    const found = recognise(memoryTensors(shapes), CLIP_FORMATS).map(({ format, tensors }) => {
      const json = format.config(tensors);
      const { hidden_size, num_hidden_layers, num_attention_heads, hidden_act } = parseConfig(
        CLIP_TEXT_CONFIG,
        json,
        "config.json",
      );
      assert.equal(hidden_size / num_attention_heads, 64);
      if (format === OPEN_CLIP_G_FORMAT) assert.equal(json["projection_dim"], 1280);
      return [format.component, format.className, hidden_size, num_hidden_layers, hidden_act];
    });
    assert.deepEqual(found, expected, Object.keys(shapes)[0]);
  }
});

Deno.test("MISTRAL_SMALL_FORMAT knows its models by their wide feed-forward, and takes the base that a GGUF file states", () => {
  const wide = qwen(2, (i) => ({ [`blk.${i}.ffn_gate.weight`]: [1280, 256] }));
  const formats = [MINISTRAL3_FORMAT, MISTRAL_SMALL_FORMAT];
  for (
    const [shapes, expected] of [[wide, "MistralModel"], [
      qwen(2, () => ({})),
      "Ministral3Model",
    ]] as const
  ) {
    const found = recognise(memoryTensors(shapes), formats).map(({ format }) => format.className);
    assert.deepEqual(found, [expected]);
  }
  const read = (metadata?: Metadata) => {
    const json = configOf(MISTRAL_SMALL_FORMAT, wide, metadata);
    return parseConfig(MINISTRAL3_CONFIG, json, "file");
  };
  const usual = read();
  assert.deepEqual([usual.rope_style, usual.rope_theta, usual.frequencies], [
    "half",
    1e9,
    undefined,
  ]);
  const said = read({ "general.architecture": "llama", "llama.rope.freq_base": 1e6 });
  assert.deepEqual([said.rope_style, said.rope_theta], ["interleaved", 1e6]);
  assert.throws(
    () => read({ "general.architecture": "llama", "llama.rope.scaling.factor": 8 }),
    /scales rotary positions/,
  );
  // As transformers 4 and 5 write its config.json.
  for (
    const rope of [{ rope_theta: 1e9 }, {
      rope_parameters: { rope_type: "default", rope_theta: 1e9 },
    }]
  ) {
    const text_config = { model_type: "mistral", sliding_window: null, ...rope };
    const config = parseConfig(MINISTRAL3_CONFIG, { model_type: "mistral3", text_config }, "file");
    assert.deepEqual([config.rope_theta, config.frequencies], [1e9, undefined]);
  }
});

Deno.test("MINISTRAL3_FORMAT takes the positions that a GGUF file states, and those of the published models otherwise", () => {
  const shapes = qwen(2, () => ({}));
  const read = (metadata?: Metadata) => {
    const json = configOf(MINISTRAL3_FORMAT, shapes, metadata);
    return parseConfig(MINISTRAL3_CONFIG, json, "file");
  };
  const usual = read();
  assert.deepEqual([usual.rope_style, usual.rope_theta, usual.rms_norm_eps], ["half", 1e6, 1e-5]);
  // Fast pairs turn as without YaRN, slow ones slower by its factor.
  assert.equal(usual.frequencies![1], 1e6 ** (-1 / 64));
  assert.ok(Math.abs(usual.frequencies![63]! / 1e6 ** (-63 / 64) - 1 / 16) < 1e-12);
  const said = read({
    "general.architecture": "mistral3",
    "mistral3.attention.head_count": 2,
    "mistral3.rope.scaling.type": "yarn",
    "mistral3.rope.scaling.factor": 4,
    "mistral3.rope.freq_base": 1e5,
  });
  assert.deepEqual([said.rope_style, said.rope_theta], ["interleaved", 1e5]);
  assert.ok(Math.abs(said.frequencies![63]! / 1e5 ** (-63 / 64) - 1 / 4) < 1e-12);
  assert.deepEqual(recognise(memoryTensors(QWEN3), [MINISTRAL3_FORMAT]), []);
  assert.deepEqual(recognise(memoryTensors(QWEN2_5), [MINISTRAL3_FORMAT]), []);
  const plain = { rope_parameters: { rope_type: "default", rope_theta: 1e4 } };
  assert.equal(parseConfig(MINISTRAL3_CONFIG, plain, "file").frequencies, undefined);
  for (const rope of [{ rope_type: "yarn" }, { rope_type: "linear", factor: 2 }]) {
    const parse = () => parseConfig(MINISTRAL3_CONFIG, { rope_scaling: rope }, "file");
    assert.throws(parse, { name: "SyntaxError" });
  }
});

Deno.test("language models of Gemma, which name what others do, are known by norms behind the feed-forward", () => {
  const others = [QWEN3_FORMAT, QWEN3_VL_FORMAT, MINISTRAL3_FORMAT, MISTRAL_SMALL_FORMAT];
  const formats = [...others, GEMMA2_FORMAT, GEMMA3_FORMAT];
  const known = (shapes: Shapes) => recognise(memoryTensors(shapes), formats)[0]?.format.className;
  const gemma2 = qwen(2, (i) => ({ [`blk.${i}.post_ffw_norm.weight`]: [256] }));
  assert.equal(known(gemma2), "Gemma2Model");
  const gemma3 = { ...gemma2, "blk.0.attn_q_norm.weight": [HEAD] };
  assert.equal(known(gemma3), GEMMA3_FORMAT.className);
  const norms = { "pre_feedforward_layernorm.weight": [256], "self_attn.q_norm.weight": [HEAD] };
  for (const prefix of ["", "model.", "model.language_model."]) {
    const layer = Object.entries(norms).map((
      [name, shape],
    ) => [`${prefix}layers.0.${name}`, shape]);
    const table = { [`${prefix}embed_tokens.weight`]: [100, 256] };
    assert.equal(known({ ...table, ...Object.fromEntries(layer) }), GEMMA3_FORMAT.className);
    assert.equal(known({ ...table, ...Object.fromEntries(layer.slice(0, 1)) }), "Gemma2Model");
  }
});
