/** Lumina-Image 2.0's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import {
  languageModel,
  layer,
  openPublished,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import { GEMMA2_CONFIG } from "../../text_encoders/gemma2.ts";
import { gemma3Encoder } from "../../text_encoders/gemma3.ts";
import { LUMINA2_TRANSFORMER_CONFIG } from "./config.ts";
import { LUMINA2_FILES } from "./layouts.ts";
import { lumina2Context, lumina2Transformer, timestepTable } from "./transformer.ts";

const DIM = 2304;
const TEXT_DIM = 2304;

function block(name: string, isModulated = true): Shapes {
  return prefixed(`${name}.`, {
    "attention.qkv.weight": [DIM + 2 * 768, DIM],
    "attention.out.weight": [DIM, DIM],
    "attention.q_norm.weight": [96],
    "attention.k_norm.weight": [96],
    "feed_forward.w1.weight": [9216, DIM],
    "feed_forward.w2.weight": [DIM, 9216],
    "feed_forward.w3.weight": [9216, DIM],
    "attention_norm1.weight": [DIM],
    "attention_norm2.weight": [DIM],
    "ffn_norm1.weight": [DIM],
    "ffn_norm2.weight": [DIM],
    ...isModulated ? layer("adaLN_modulation.1", 4 * DIM, 1024) : {},
  });
}

/** All tensors of Lumina-Image-2.0 and of its fine-tunes. Source: `convert_lumina2_to_diffusers`, read backwards. */
function transformer(): Shapes {
  return {
    ...layer("x_embedder", DIM, 64),
    ...layer("t_embedder.mlp.0", 1024, 256),
    ...layer("t_embedder.mlp.2", 1024, 1024),
    "cap_embedder.0.weight": [TEXT_DIM],
    ...layer("cap_embedder.1", DIM, TEXT_DIM),
    ...repeated(2, (i) => ({
      ...block(`noise_refiner.${i}`),
      ...block(`context_refiner.${i}`, false),
    })),
    ...repeated(26, (i) => block(`layers.${i}`)),
    // Nothing reads it.
    "norm_final.weight": [DIM],
    ...layer("final_layer.linear", 64, DIM),
    ...layer("final_layer.adaLN_modulation.1", DIM, 1024),
  };
}

/** All tensors of Gemma 2 2B. Source: `Gemma2Model` of transformers. */
function textEncoder(): Shapes {
  const sizes = { dim: TEXT_DIM, wide: 9216, queries: 2048, keys: 1024 };
  return {
    ...languageModel({ layers: 26, vocabulary: 256000, ...sizes }),
    ...repeated(26, (i) => ({
      [`layers.${i}.pre_feedforward_layernorm.weight`]: [TEXT_DIM],
      [`layers.${i}.post_feedforward_layernorm.weight`]: [TEXT_DIM],
    })),
  };
}

const opened = (shapes: Shapes) => openPublished(shapes, LUMINA2_FILES.formats);

Deno.test("Lumina 2's single file loads with nothing missing and nothing over but a norm, with or without a prefix", () => {
  for (const prefix of ["", "model.diffusion_model."]) {
    const { graph, input, weights, json } = opened(prefixed(prefix, transformer()));
    const config = LUMINA2_TRANSFORMER_CONFIG.parse(json);
    assert.deepEqual(config, LUMINA2_TRANSFORMER_CONFIG.parse({ cap_feat_dim: TEXT_DIM }));
    lumina2Transformer(graph, config, weights.root, {
      context: lumina2Context(graph, config, weights.root, input([1, 5, TEXT_DIM])),
      sample: input([1, 6, 64]),
      grid: { rows: 2, columns: 3 },
      times: timestepTable(graph, config, weights.root, [1]),
      step: input([1], "u32"),
    });
    assert.deepEqual(weights.unused, ["norm_final.weight"]);
  }
});

Deno.test("Lumina 2 needs all of Gemma 2 but the last layer and the norm", () => {
  for (const prefix of ["", "model.", "text_encoders.gemma2_2b.transformer.model."]) {
    const { graph, input, weights, json, className } = opened(prefixed(prefix, textEncoder()));
    assert.equal(className, "Gemma2Model");
    const config = GEMMA2_CONFIG.parse(json);
    assert.deepEqual(config, GEMMA2_CONFIG.parse({}));
    gemma3Encoder(graph, config, weights.root, input([1, 7, TEXT_DIM]), 25);
    const unused = weights.unused.filter((name) => !/^layers\.25\./.test(name));
    assert.deepEqual(unused, ["embed_tokens.weight", "norm.weight"]);
  }
});
