/** ChatGLM3-6B's files as people have them: every tensor's name and shape, without its numbers. */
import assert from "node:assert/strict";
import {
  layer,
  openPublished,
  prefixed,
  repeated,
  type Shapes,
} from "../../tests/support/published_shapes.ts";
import { parseConfig } from "../config.ts";
import { CHATGLM3_CONFIG, CHATGLM3_FORMAT, chatGlm3Encoder } from "./chatglm3.ts";

const [DIM, WIDE, WORDS] = [4096, 13696, 65024];
const UNREAD = ["encoder.final_layernorm.weight", "output_layer.weight", "rotary_pos_emb.inv_freq"];

const TENSORS: Shapes = {
  "embedding.word_embeddings.weight": [WORDS, DIM],
  ...repeated(28, (i) =>
    prefixed(`encoder.layers.${i}.`, {
      "input_layernorm.weight": [DIM],
      "post_attention_layernorm.weight": [DIM],
      ...layer("self_attention.query_key_value", 4608, DIM),
      "self_attention.dense.weight": [DIM, DIM],
      "mlp.dense_h_to_4h.weight": [2 * WIDE, DIM],
      "mlp.dense_4h_to_h.weight": [DIM, WIDE],
    })),
  "encoder.final_layernorm.weight": [DIM],
  "output_layer.weight": [WORDS, DIM],
  "rotary_pos_emb.inv_freq": [32],
};

Deno.test("ChatGLM3's files load with nothing unmatched and nothing missing, alone or as transformers' model has them", () => {
  for (const prefix of ["", "transformer."]) {
    const { json, weights, graph, input } = openPublished(prefixed(prefix, TENSORS), [
      CHATGLM3_FORMAT,
    ]);
    const config = parseConfig(CHATGLM3_CONFIG, json, "");
    assert.deepEqual(config, CHATGLM3_CONFIG.parse({}));
    const encoder = chatGlm3Encoder({ config, weights }, 0);
    const given = Object.entries(encoder.inputs(1, 256)).map(([name, { shape, dtype }]) =>
      [name, input([...shape], dtype as "f32" | "u32")] as const
    );
    const states = encoder.trace(Object.fromEntries(given), graph);
    assert.deepEqual(states.shape, [1, 256 * DIM + DIM]);
    const table = `${prefix}embedding.word_embeddings.weight`;
    const left = weights.unused.filter((name) => name !== table);
    assert.deepEqual(left.toSorted(), UNREAD.map((name) => prefix + name).toSorted());
  }
});
