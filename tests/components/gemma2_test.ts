/** The Gemma 2 text encoder against the reference. */
import assert from "node:assert/strict";
import { parseConfig } from "../../models/config.ts";
import { GEMMA2_CONFIG } from "../../models/text_encoders/gemma2.ts";
import { gemma3Embeddings, gemma3Encoder } from "../../models/text_encoders/gemma3.ts";
import { assertClose, Golden, rowsOf } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

Deno.test("gemma3Encoder() gives all states of gemma2/tiny, whose scores are capped, without what fills a text up", async (t) => {
  const golden = new Golden("gemma2/tiny");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(GEMMA2_CONFIG, golden.config(), "config.json");
  const unused = await checkCalls(t, golden, checkpoint, async (device, weights, call) => {
    const lengths = call.args["lengths"] as number[];
    const rows = Math.max(...lengths);
    // What comes after a text is not seen by it.
    const ids = lengths.flatMap((length, i) => [
      ...Array.from(golden.tensor(call.name, `ids${i}`).data),
      ...new Array<number>(rows - length).fill(3),
    ]);
    const embeddings = {
      shape: [lengths.length, rows, config.hidden_size],
      data: gemma3Embeddings(config, weights, ids),
    };
    using run = await ModelRun.prepare(device, weights, { embeddings }, (graph, inputs) => {
      const states = gemma3Encoder(graph, config, weights.root, inputs["embeddings"]!);
      return Object.fromEntries(states.map((state, i) => [`states${i}`, state]));
    });
    await run.run();
    for (const [i, length] of lengths.entries()) {
      const expected = golden.tensor(call.name, `states${i}`);
      for (let layer = 0; layer <= config.num_hidden_layers; layer++) {
        const all = await run.read(`states${layer}`);
        const of = { shape: all.shape.slice(1), data: rowsOf(all, i, i + 1).data };
        const own = rowsOf(of, 0, length);
        const { data } = rowsOf(expected, layer, layer + 1);
        assertClose(`states ${layer} of ${i}`, own, { shape: own.shape, data }, 1e-4);
      }
    }
  });
  assert.deepEqual(unused, []);
});

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
