/** Ideogram 4's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import {
  layer,
  openPublished,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import { IDEOGRAM4_TRANSFORMER_CONFIG, TEXT_LAYERS } from "./config.ts";
import { IDEOGRAM4_FILES } from "./layouts.ts";
import { ideogram4Context, ideogram4Transformer, timestepTable } from "./transformer.ts";

const DIM = 4608;
const FEATURES = 13 * 4096;

/** All tensors of both transformers. Source: `Ideogram4Transformer2DModel`, and stable-diffusion.cpp for the original names. */
function transformer(): Shapes {
  return {
    ...layer("input_proj", DIM, 128),
    "llm_cond_norm.weight": [FEATURES],
    ...layer("llm_cond_proj", DIM, FEATURES),
    ...layer("t_embedding.mlp_in", DIM, DIM),
    ...layer("t_embedding.mlp_out", DIM, DIM),
    ...layer("adaln_proj", 512, DIM),
    "embed_image_indicator.weight": [2, DIM],
    ...repeated(34, (i) => {
      const name = `layers.${i}`;
      return {
        [`${name}.attention.qkv.weight`]: [3 * DIM, DIM],
        [`${name}.attention.o.weight`]: [DIM, DIM],
        [`${name}.attention.norm_q.weight`]: [256],
        [`${name}.attention.norm_k.weight`]: [256],
        [`${name}.feed_forward.w1.weight`]: [12288, DIM],
        [`${name}.feed_forward.w2.weight`]: [DIM, 12288],
        [`${name}.feed_forward.w3.weight`]: [12288, DIM],
        ...Object.fromEntries(
          ["attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"]
            .map((norm) => [`${name}.${norm}.weight`, [DIM]]),
        ),
        ...layer(`${name}.adaln_modulation`, 4 * DIM, 512),
      };
    }),
    ...layer("final_layer.linear", 128, DIM),
    ...layer("final_layer.adaln_modulation", DIM, 512),
  };
}

Deno.test("Ideogram 4's single file loads with nothing unmatched and nothing missing, with or without a prefix", () => {
  for (const prefix of ["", "model.diffusion_model.", "unconditional_transformer."]) {
    const shapes = prefixed(prefix, transformer());
    const { graph, weights, json, input } = openPublished(shapes, IDEOGRAM4_FILES.formats);
    const config = IDEOGRAM4_TRANSFORMER_CONFIG.parse(json);
    assert.deepEqual(config, IDEOGRAM4_TRANSFORMER_CONFIG.parse({}));
    const states = input([1, 5, FEATURES]);
    ideogram4Transformer(graph, config, weights.root, {
      context: ideogram4Context(graph, config, weights.root, states, TEXT_LAYERS.length),
      sample: input([1, 6, 128]),
      grid: { rows: 2, columns: 3 },
      times: timestepTable(graph, config, weights.root, [1000]),
      step: input([1], "u32"),
    });
    assert.deepEqual(weights.unused, []);
  }
});
