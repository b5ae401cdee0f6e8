/** ERNIE-Image's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import {
  languageModel,
  layer,
  openPublished,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import { MINISTRAL3_CONFIG } from "../../text_encoders/ministral3.ts";
import { qwenEncoder } from "../../text_encoders/qwen.ts";
import { ERNIE_IMAGE_TRANSFORMER_CONFIG } from "./config.ts";
import { ERNIE_IMAGE_FILES } from "./layouts.ts";
import { ernieImageContext, ernieImageTransformer, timestepTable } from "./transformer.ts";

const DIM = 4096;
const TEXT_DIM = 3072;

/** All tensors of ERNIE-Image and of Turbo. Source: `ErnieImageTransformer2DModel` of diffusers. */
function transformer(): Shapes {
  return {
    "x_embedder.proj.weight": [DIM, 128, 1, 1],
    "x_embedder.proj.bias": [DIM],
    "text_proj.weight": [DIM, TEXT_DIM],
    ...layer("time_embedding.linear_1", DIM, DIM),
    ...layer("time_embedding.linear_2", DIM, DIM),
    ...layer("adaLN_modulation.1", 6 * DIM, DIM),
    ...repeated(36, (i) => {
      const [attn, mlp] = ["self_attention", "mlp"].map((part) => `layers.${i}.${part}`);
      return {
        [`layers.${i}.adaLN_sa_ln.weight`]: [DIM],
        [`layers.${i}.adaLN_mlp_ln.weight`]: [DIM],
        ...Object.fromEntries(
          ["to_q", "to_k", "to_v", "to_out.0"].map((
            name,
          ) => [`${attn}.${name}.weight`, [DIM, DIM]]),
        ),
        [`${attn}.norm_q.weight`]: [128],
        [`${attn}.norm_k.weight`]: [128],
        [`${mlp}.gate_proj.weight`]: [12288, DIM],
        [`${mlp}.up_proj.weight`]: [12288, DIM],
        [`${mlp}.linear_fc2.weight`]: [DIM, 12288],
      };
    }),
    ...layer("final_norm.linear", 2 * DIM, DIM),
    ...layer("final_linear", 128, DIM),
  };
}

/** All tensors of Ministral-3-3B's language model, and one of its vision tower. Source: `Mistral3Model` of transformers. */
function textEncoder(prefix: string): Shapes {
  return {
    "vision_tower.ln_pre.weight": [1024],
    ...prefixed(
      prefix,
      languageModel({
        layers: 26,
        vocabulary: 131072,
        dim: TEXT_DIM,
        wide: 9216,
        queries: 4096,
        keys: 1024,
      }),
    ),
  };
}

const opened = (shapes: Shapes) => openPublished(shapes, ERNIE_IMAGE_FILES.formats);

Deno.test("ERNIE-Image's single file loads with nothing unmatched and nothing missing, with or without a prefix", () => {
  assert.equal(Object.keys(transformer()).length, 409);
  for (const prefix of ["", "model.diffusion_model."]) {
    const shapes = prefixed(prefix, transformer());
    const { graph, input, weights: { root }, weights, json } = opened(shapes);
    const config = ERNIE_IMAGE_TRANSFORMER_CONFIG.parse(json);
    const { hidden_size, num_attention_heads, num_layers, text_in_dim } = config;
    assert.deepEqual(
      [hidden_size, num_attention_heads, num_layers, text_in_dim],
      [DIM, 32, 36, TEXT_DIM],
    );
    ernieImageTransformer(graph, config, root, {
      context: ernieImageContext(config, root, input([1, 5, TEXT_DIM])),
      sample: input([1, 6, 128]),
      grid: { rows: 2, columns: 3 },
      times: timestepTable(graph, config, root, [1000]),
      step: input([1], "u32"),
    });
    assert.deepEqual(weights.unused, []);
  }
});

Deno.test("ERNIE-Image needs all of Ministral 3's language model but the last layer and the norm", () => {
  for (const prefix of ["language_model.", "model."]) {
    const { graph, input, weights, json } = opened(textEncoder(prefix));
    const config = MINISTRAL3_CONFIG.parse(json);
    assert.deepEqual([config.num_attention_heads, config.num_key_value_heads], [32, 8]);
    const inputs = { embeddings: input([1, 7, TEXT_DIM]), lengths: input([1], "u32") };
    qwenEncoder(graph, config, weights.root, inputs, [25]);
    const unused = weights.unused.filter((name) => !/layers\.25\.|vision_tower/.test(name));
    assert.deepEqual(
      unused.map((name) => name.replace(/^language_model\./, "")),
      ["embed_tokens.weight", "norm.weight"],
    );
  }
});

Deno.test("ERNIE_IMAGE_FILES knows Turbo by the name of the file", () => {
  const of = (path: string) => ERNIE_IMAGE_FILES.defaults({}, path).repositories[0];
  assert.equal(of("/models/ernie-image-turbo.safetensors"), "baidu/ERNIE-Image-Turbo");
  assert.equal(of("/turbo/ernie-image-Q4_K_M.gguf"), "baidu/ERNIE-Image");
});
