/** Qwen-Image's files as people have them: every tensor's name and shape, without its numbers. */
import { layer } from "../support/published_shapes.ts";
import { recognise } from "../../models/checkpoints/recognise.ts";
import { QWEN_IMAGE_TRANSFORMER_CONFIG } from "../../models/families/qwen_image/config.ts";
import { QWEN_IMAGE_FILES } from "../../models/families/qwen_image/layouts.ts";
import { modulationTables } from "../../models/families/qwen_image/modulation.ts";
import { qwenImageContext } from "../../models/families/qwen_image/blocks.ts";
import { qwenImageTransformer } from "../../models/families/qwen_image/transformer.ts";
import {
  qwen25Vision,
  QWEN2_5_VISION_CONFIG,
  visionLayout,
} from "../../models/image_encoders/qwen2_5_vision.ts";
import { QWEN2_5_VL_CONFIG, QWEN2_5_VL_FORMAT } from "../../models/text_encoders/qwen2_5_vl.ts";
import { qwenEncoder } from "../../models/text_encoders/qwen.ts";
import { BASELINE_TARGET, DeviceTensor, Graph, Weights } from "../../runtime/mod.ts";
import { memoryTensors } from "../support/memory_tensors.ts";

import assert from "node:assert/strict";

type Shapes = Record<string, readonly number[]>;

const DIM = 3072;

/** A linear layer with its bias. */
/** All tensors of Qwen-Image's transformer. Source: `QwenImageTransformer2DModel` of diffusers. */
function transformer(): Shapes {
  const attention = [
    ...["to_q", "to_k", "to_v", "to_out.0", "to_add_out"],
    ...["add_q_proj", "add_k_proj", "add_v_proj"],
  ];
  const norms = ["norm_q", "norm_k", "norm_added_q", "norm_added_k"];
  const block = (path: string): Shapes =>
    Object.assign(
      {},
      ...attention.map((name) => layer(`${path}.attn.${name}`, DIM, DIM)),
      ...norms.map((name) => ({ [`${path}.attn.${name}.weight`]: [128] })),
      ...["img", "txt"].map((stream) => ({
        ...layer(`${path}.${stream}_mod.1`, 6 * DIM, DIM),
        ...layer(`${path}.${stream}_mlp.net.0.proj`, 4 * DIM, DIM),
        ...layer(`${path}.${stream}_mlp.net.2`, DIM, 4 * DIM),
      })),
    );
  return Object.assign(
    {
      "txt_norm.weight": [3584],
      ...layer("time_text_embed.timestep_embedder.linear_1", DIM, 256),
      ...layer("time_text_embed.timestep_embedder.linear_2", DIM, DIM),
      ...layer("img_in", DIM, 64),
      ...layer("txt_in", DIM, 3584),
      ...layer("norm_out.linear", 2 * DIM, DIM),
      ...layer("proj_out", 64, DIM),
    },
    ...Array.from({ length: 60 }, (_, i) => block(`transformer_blocks.${i}`)),
  );
}

/** Names of a layer of Qwen2.5-VL's language model, with those of llama.cpp. */
const TEXT_LAYER: readonly (readonly [ours: string, theirs: string, shape: readonly number[]])[] = [
  ["self_attn.q_proj.weight", "attn_q.weight", [3584, 3584]],
  ["self_attn.q_proj.bias", "attn_q.bias", [3584]],
  ["self_attn.k_proj.weight", "attn_k.weight", [512, 3584]],
  ["self_attn.k_proj.bias", "attn_k.bias", [512]],
  ["self_attn.v_proj.weight", "attn_v.weight", [512, 3584]],
  ["self_attn.v_proj.bias", "attn_v.bias", [512]],
  ["self_attn.o_proj.weight", "attn_output.weight", [3584, 3584]],
  ["mlp.gate_proj.weight", "ffn_gate.weight", [18944, 3584]],
  ["mlp.up_proj.weight", "ffn_up.weight", [18944, 3584]],
  ["mlp.down_proj.weight", "ffn_down.weight", [3584, 18944]],
  ["input_layernorm.weight", "attn_norm.weight", [3584]],
  ["post_attention_layernorm.weight", "ffn_norm.weight", [3584]],
];

/** All tensors of Qwen2.5-VL-7B's language model, under the names of transformers or of llama.cpp. */
function textEncoder(naming: "transformers" | "llama.cpp"): Shapes {
  const [table, norm, blocks] = naming === "transformers"
    ? ["embed_tokens", "norm", "layers"]
    : ["token_embd", "output_norm", "blk"];
  const entries = Array.from({ length: 28 }, (_, i) =>
    TEXT_LAYER.map(([ours, theirs, shape]) => {
      const name = naming === "transformers" ? ours : theirs;
      return [`${blocks}.${i}.${name}`, shape] as const;
    }));
  return {
    [`${table}.weight`]: [152064, 3584],
    [`${norm}.weight`]: [3584],
    ...Object.fromEntries(entries.flat()),
  };
}

/** All tensors of the vision tower. Source: `Qwen2_5_VisionTransformerPretrainedModel` of transformers. */
function visionTower(): Shapes {
  const block = (path: string): Shapes => ({
    [`${path}.norm1.weight`]: [1280],
    [`${path}.norm2.weight`]: [1280],
    ...layer(`${path}.attn.qkv`, 3840, 1280),
    ...layer(`${path}.attn.proj`, 1280, 1280),
    ...layer(`${path}.mlp.gate_proj`, 3420, 1280),
    ...layer(`${path}.mlp.up_proj`, 3420, 1280),
    ...layer(`${path}.mlp.down_proj`, 1280, 3420),
  });
  return Object.assign(
    {
      "patch_embed.proj.weight": [1280, 3, 2, 14, 14],
      "merger.ln_q.weight": [1280],
      ...layer("merger.mlp.0", 5120, 5120),
      ...layer("merger.mlp.2", 3584, 5120),
    },
    ...Array.from({ length: 32 }, (_, i) => block(`blocks.${i}`)),
  );
}

function prefixed(prefix: string, shapes: Shapes): Shapes {
  return Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [prefix + name, shape]));
}

Deno.test("Qwen-Image's single file loads with nothing unmatched and nothing missing, with or without a prefix", () => {
  assert.equal(Object.keys(transformer()).length, 1933);
  for (const prefix of ["", "model.diffusion_model."]) {
    const source = memoryTensors(prefixed(prefix, transformer()));
    const [found, ...others] = recognise(source, QWEN_IMAGE_FILES.formats);
    assert.deepEqual(others, []);
    const config = QWEN_IMAGE_TRANSFORMER_CONFIG.parse(found!.format.config(found!.tensors));
    const weights = new Weights(found!.tensors);
    const graph = new Graph("test", BASELINE_TARGET);
    const { root } = weights;
    const text = graph.use(new DeviceTensor("text", [1, 5, 3584], "f32"));
    qwenImageTransformer(graph, config, root, {
      context: qwenImageContext(graph, config, root, text),
      sample: graph.use(new DeviceTensor("sample", [1, 6, 64], "f32")),
      ...{ grids: [{ rows: 2, columns: 3 }], referenceGrids: [] },
      step: graph.use(new DeviceTensor("step", [1], "u32")),
      ...modulationTables(config, root, graph.use(new DeviceTensor("times", [2, 256], "f32"))),
    });
    assert.deepEqual(weights.unused, []);
  }
});

Deno.test("Qwen-Image-Layered's files load with nothing unmatched and nothing missing", () => {
  const shapes = {
    ...transformer(),
    "time_text_embed.addition_t_embedding.weight": [2, DIM],
  };
  const [found] = recognise(memoryTensors(shapes), QWEN_IMAGE_FILES.formats);
  const own = found!.format.config(found!.tensors);
  const config = QWEN_IMAGE_TRANSFORMER_CONFIG.parse(own);
  assert.equal(
    QWEN_IMAGE_FILES.defaults(own, "mine.safetensors").className,
    "QwenImageLayeredPipeline",
  );
  const weights = new Weights(found!.tensors);
  const graph = new Graph("test", BASELINE_TARGET);
  const { root } = weights;
  const text = graph.use(new DeviceTensor("text", [1, 5, 3584], "f32"));
  const sampleOf = (name: string, tokens: number) =>
    graph.use(new DeviceTensor(name, [1, tokens, 64], "f32"));
  const grid = { rows: 2, columns: 3 };
  qwenImageTransformer(graph, config, root, {
    context: qwenImageContext(graph, config, root, text),
    ...{ sample: sampleOf("sample", 18), grids: [grid, grid, grid] },
    ...{ references: sampleOf("given", 6), referenceGrids: [grid] },
    step: graph.use(new DeviceTensor("step", [1], "u32")),
    ...modulationTables(config, root, graph.use(new DeviceTensor("times", [2, 256], "f32"))),
  });
  assert.deepEqual(weights.unused, []);
});

Deno.test("Qwen2.5-VL's files load with nothing unmatched and nothing missing, in transformers' and llama.cpp's names", () => {
  const ours = textEncoder("transformers");
  for (const shapes of [ours, prefixed("model.", ours), textEncoder("llama.cpp")]) {
    const [found] = recognise(memoryTensors(shapes), QWEN_IMAGE_FILES.formats);
    assert.equal(found!.format, QWEN2_5_VL_FORMAT);
    const config = QWEN2_5_VL_CONFIG.parse(found!.format.config(found!.tensors));
    const weights = new Weights(found!.tensors);
    const graph = new Graph("test", BASELINE_TARGET);
    const embeddings = graph.use(new DeviceTensor("embeddings", [1, 5, 3584], "f32"));
    const lengths = graph.use(new DeviceTensor("lengths", [1], "u32"));
    const { num_hidden_layers: layers } = config;
    qwenEncoder(graph, config, weights.root, { embeddings, lengths }, [layers]);
    // Its rows are read from the file.
    assert.deepEqual(weights.unused, ["embed_tokens.weight"]);
  }
});

Deno.test("Qwen2.5-VL's files with the vision tower load with nothing unmatched and nothing missing, in either wrapping", () => {
  const head = { "lm_head.weight": [152064, 3584] };
  for (
    const [text, vision] of [["model.", "visual."], ["model.language_model.", "model.visual."]]
  ) {
    const shapes = {
      ...prefixed(text!, textEncoder("transformers")),
      ...prefixed(vision!, visionTower()),
      ...head,
    };
    assert.equal(Object.keys(shapes).length, 729);
    const [found] = recognise(memoryTensors(shapes), QWEN_IMAGE_FILES.formats);
    const config = QWEN2_5_VL_CONFIG.parse(found!.format.config(found!.tensors));
    const weights = new Weights(found!.tensors);
    const graph = new Graph("test", BASELINE_TARGET);
    const layout = visionLayout(config.vision!, { rows: 12, columns: 10 });
    const patches = graph.use(new DeviceTensor("patches", [120, 588]));
    const tower = weights.root.scope(vision!.slice(0, -1));
    const embeddings = qwen25Vision(graph, config.vision!, tower, patches, layout)
      .reshape(1, 30, 3584);
    const lengths = graph.use(new DeviceTensor("lengths", [1], "u32"));
    const { num_hidden_layers: layers } = config;
    qwenEncoder(graph, config, weights.root, { embeddings, lengths }, [layers]);
    // The one's rows are read from the file, the other is for answers.
    assert.deepEqual(weights.unused, [`${text}embed_tokens.weight`, "lm_head.weight"]);
  }
});

Deno.test("llama.cpp's mmproj file of Qwen2.5-VL loads with nothing unmatched and nothing missing", () => {
  const parts = (path: string) =>
    ["q", "k", "v"].map((part) => layer(`${path}.attn_${part}`, 1280, 1280));
  const block = (path: string): Shapes =>
    Object.assign(
      { [`${path}.ln1.weight`]: [1280], [`${path}.ln2.weight`]: [1280] },
      ...parts(path),
      layer(`${path}.attn_out`, 1280, 1280),
      layer(`${path}.ffn_gate`, 3420, 1280),
      layer(`${path}.ffn_up`, 3420, 1280),
      layer(`${path}.ffn_down`, 1280, 3420),
    );
  const shapes: Shapes = Object.assign(
    {
      "v.patch_embd.weight": [1280, 3, 14, 14],
      "v.patch_embd.weight.1": [1280, 3, 14, 14],
      "v.post_ln.weight": [1280],
      ...layer("mm.0", 5120, 5120),
      ...layer("mm.2", 3584, 5120),
    },
    ...Array.from({ length: 32 }, (_, i) => block(`v.blk.${i}`)),
  );
  const [found] = recognise(memoryTensors(shapes), QWEN_IMAGE_FILES.formats);
  assert.deepEqual(
    new Set(found!.tensors.names),
    new Set(Object.keys(prefixed("visual.", visionTower()))),
  );
  const config = QWEN2_5_VISION_CONFIG.parse(found!.format.config(found!.tensors));
  assert.deepEqual(config, QWEN2_5_VISION_CONFIG.parse({}));
});

Deno.test("QWEN_IMAGE_FILES tells edits by the name of the file, or by ComfyUI's mark of 2511", () => {
  const classOf = (path: string, config = {}) => QWEN_IMAGE_FILES.defaults(config, path).className;
  assert.equal(classOf("/edit/qwen_image_2512_fp8_e4m3fn.safetensors"), "QwenImagePipeline");
  assert.equal(classOf("qwen-image-edit-Q4_K_M.gguf"), "QwenImageEditPipeline");
  assert.equal(classOf("Qwen-Image-Edit-2509-Q4_0.gguf"), "QwenImageEditPlusPipeline");
  assert.equal(classOf("mine.safetensors", { zero_cond_t: true }), "QwenImageEditPlusPipeline");
  const marked = { ...transformer(), "__index_timestep_zero__": [0] };
  const [found] = recognise(memoryTensors(marked), QWEN_IMAGE_FILES.formats);
  const { zero_cond_t } = QWEN_IMAGE_TRANSFORMER_CONFIG.parse(found!.format.config(found!.tensors));
  assert.equal(zero_cond_t, true);
});
