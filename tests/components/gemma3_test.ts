/** The Gemma 3 text encoder against the reference. */
import assert from "node:assert/strict";
import { parseConfig } from "../../models/config.ts";
import { GEMMA3_CONFIG } from "../../models/text_encoders/gemma3_config.ts";
import { checkGemmaStates } from "../support/gemma_states.ts";

Deno.test("gemma3Encoder() gives all states of gemma3/tiny, beyond the window of its layers too, without what fills a text up", (t) =>
  checkGemmaStates(t, "gemma3/tiny", GEMMA3_CONFIG));

Deno.test("GEMMA3_CONFIG takes positions from where either version of transformers writes them, and names what does not fit", () => {
  const parse = (json: object) => parseConfig(GEMMA3_CONFIG, json, "config.json");
  const old = {
    rope_theta: 5e5,
    rope_local_base_freq: 2e4,
    rope_scaling: { type: "linear", factor: 8 },
  };
  assert.deepEqual(parse({ text_config: old }).rope, {
    full_attention: { theta: 5e5, factor: 8 },
    sliding_attention: { theta: 2e4, factor: 1 },
  });
  assert.deepEqual(parse({}).rope.full_attention, { theta: 1e6, factor: 1 });
  assert.equal(parse({ num_hidden_layers: 12 }).layer_types.lastIndexOf("full_attention"), 11);
  const cases: readonly [object, RegExp][] = [
    [{ rope_scaling: { rope_type: "yarn" } }, /only linearly scaled positions are supported/],
    [{ num_attention_heads: 6 }, /num_key_value_heads .*it must divide num_attention_heads/],
    [{ layer_types: ["full_attention"] }, /it must name all 26 layers, and it names 1/],
    [{ attn_logit_softcapping: 50 }, /capped logits are not supported/],
    [{ use_bidirectional_attention: true }, /only causal attention is supported/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
