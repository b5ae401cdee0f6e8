/** Krea 2's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import {
  languageModel,
  layer,
  openPublished,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import { qwenEncoder } from "../../text_encoders/qwen.ts";
import { QWEN3_VL_CONFIG } from "../../text_encoders/qwen3_vl.ts";
import { KREA2_TRANSFORMER_CONFIG, textLayers } from "./config.ts";
import { KREA2_FILES } from "./layouts.ts";
import { krea2Context, krea2Transformer, timestepTable } from "./transformer.ts";

const DIM = 6144;
const TEXT_DIM = 2560;

function block(name: string, dim: number, keys: number, hidden: number): Shapes {
  return {
    [`${name}.attn.wq.weight`]: [dim, dim],
    [`${name}.attn.wk.weight`]: [keys, dim],
    [`${name}.attn.wv.weight`]: [keys, dim],
    [`${name}.attn.wo.weight`]: [dim, dim],
    [`${name}.attn.gate.weight`]: [dim, dim],
    [`${name}.attn.qknorm.qnorm.scale`]: [128],
    [`${name}.attn.qknorm.knorm.scale`]: [128],
    [`${name}.mlp.gate.weight`]: [hidden, dim],
    [`${name}.mlp.up.weight`]: [hidden, dim],
    [`${name}.mlp.down.weight`]: [dim, hidden],
    [`${name}.prenorm.scale`]: [dim],
    [`${name}.postnorm.scale`]: [dim],
  };
}

/** All tensors of `raw.safetensors` and `turbo.safetensors`. Source: `mmdit.py` of Krea's own code. */
function transformer(): Shapes {
  const text = (name: string) => block(`txtfusion.${name}`, TEXT_DIM, TEXT_DIM, 6912);
  return {
    ...layer("first", DIM, 64),
    ...layer("tmlp.0", DIM, 256),
    ...layer("tmlp.2", DIM, DIM),
    ...layer("tproj.1", 6 * DIM, DIM),
    "txtmlp.0.scale": [TEXT_DIM],
    ...layer("txtmlp.1", DIM, TEXT_DIM),
    ...layer("txtmlp.3", DIM, DIM),
    "txtfusion.projector.weight": [1, 12],
    ...repeated(2, (i) => ({ ...text(`layerwise_blocks.${i}`), ...text(`refiner_blocks.${i}`) })),
    ...repeated(28, (i) => ({
      ...block(`blocks.${i}`, DIM, DIM / 4, 16384),
      [`blocks.${i}.mod.lin`]: [6 * DIM],
    })),
    ...layer("last.linear", 64, DIM),
    "last.norm.scale": [DIM],
    "last.modulation.lin": [2, DIM],
  };
}

/** All tensors of Qwen3-VL-4B's language model, and one of its vision tower. Source: `Qwen3VLModel` of transformers. */
function textEncoder(prefix: string): Shapes {
  return {
    "model.visual.deepstack_merger_list.0.norm.weight": [4096],
    ...prefixed(
      prefix,
      languageModel({
        layers: 36,
        vocabulary: 151936,
        dim: TEXT_DIM,
        wide: 9728,
        queries: 4096,
        keys: 1024,
      }),
    ),
    ...repeated(36, (i) => ({
      [`${prefix}layers.${i}.self_attn.q_norm.weight`]: [128],
      [`${prefix}layers.${i}.self_attn.k_norm.weight`]: [128],
    })),
  };
}

const opened = (shapes: Shapes) => openPublished(shapes, KREA2_FILES.formats);

Deno.test("Krea 2's single file loads with nothing unmatched and nothing missing, with or without a prefix", () => {
  assert.equal(Object.keys(transformer()).length, 430);
  for (const prefix of ["", "model.diffusion_model."]) {
    const shapes = prefixed(prefix, transformer());
    const { graph, input, weights, json } = opened(shapes);
    const config = KREA2_TRANSFORMER_CONFIG.parse(json);
    assert.deepEqual(config, KREA2_TRANSFORMER_CONFIG.parse({}));
    krea2Transformer(graph, config, weights.root, {
      context: krea2Context(graph, config, weights.root, input([1, 5, 12 * TEXT_DIM])),
      sample: input([1, 6, 64]),
      grid: { rows: 2, columns: 3 },
      times: timestepTable(config, weights.root, input([8, 256])),
      step: input([1], "u32"),
    });
    assert.deepEqual(weights.unused, []);
  }
});

Deno.test("Qwen3-VL's file is known from Qwen3's, and the layers that Krea 2 sees need all of it but the last", () => {
  for (const prefix of ["model.language_model.", "model."]) {
    const { graph, input, weights, json, className } = opened(textEncoder(prefix));
    assert.equal(className, "Qwen3VLModel");
    const config = QWEN3_VL_CONFIG.parse(json);
    assert.deepEqual(config.rope_theta, 5e6);
    const inputs = { embeddings: input([1, 7, TEXT_DIM]), lengths: input([1], "u32") };
    qwenEncoder(graph, config, weights.root, inputs, textLayers(12));
    const unused = weights.unused.filter((name) => !/layers\.35\.|visual\./.test(name));
    assert.deepEqual(unused, ["embed_tokens.weight", "norm.weight"]);
  }
});

Deno.test("KREA2_FILES knows Turbo by the name of the file", () => {
  const of = (path: string) => KREA2_FILES.defaults({ num_text_layers: 12 }, path);
  const [turbo, raw] = [
    of("/raw/Krea-2-Turbo-Q4_K_M.gguf"),
    of("/turbo/krea2_raw_bf16.safetensors"),
  ];
  assert.deepEqual([turbo.settings["is_distilled"], raw.settings["is_distilled"]], [true, false]);
  assert.equal(turbo.repositories[0], "krea/Krea-2-Turbo");
  assert.equal(raw.repositories[0], "krea/Krea-2-Raw");
});
