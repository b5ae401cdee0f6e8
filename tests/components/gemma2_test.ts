/** The Gemma 2 text encoder against the reference. */
import assert from "node:assert/strict";
import { parseConfig } from "../../models/config.ts";
import { GEMMA2_CONFIG } from "../../models/text_encoders/gemma2.ts";
import { checkGemmaStates } from "../support/gemma_states.ts";

Deno.test("gemma3Encoder() gives all states of gemma2/tiny, whose scores are capped, without what fills a text up", (t) =>
  checkGemmaStates(t, "gemma2/tiny", GEMMA2_CONFIG));

Deno.test("GEMMA2_CONFIG takes every second layer's window from the first on, and names what does not fit", () => {
  const parse = (json: object) => parseConfig(GEMMA2_CONFIG, json, "config.json");
  const { layer_types, rope, attn_logit_softcapping } = parse({ rope_theta: 5e5 });
  assert.deepEqual(layer_types.slice(0, 2), ["sliding_attention", "full_attention"]);
  assert.deepEqual(rope.full_attention, { theta: 5e5, factor: 1 });
  assert.equal(attn_logit_softcapping, 50);
  const cases: readonly [object, RegExp][] = [
    [{ rope_parameters: { rope_type: "yarn" } }, /scaled positions are not supported/],
    [{ num_attention_heads: 6 }, /num_key_value_heads .*it must divide num_attention_heads/],
    [{ layer_types: ["full_attention"] }, /it must name all 26 layers, and it names 1/],
    [{ attention_bias: true }, /biases are not supported/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
