/** The Krea 2 transformer against the reference. */
import { strict as assert } from "node:assert";
import { parseConfig } from "../../models/config.ts";
import { timestepEmbedding } from "../../models/blocks/embeddings.ts";
import {
  KREA2_TRANSFORMER_CONFIG,
  type Krea2TransformerConfig,
} from "../../models/families/krea2/config.ts";
import {
  krea2Context,
  krea2Transformer,
  timestepTable,
} from "../../models/families/krea2/transformer.ts";
import type { Device, Weights } from "../../runtime/mod.ts";
import { assertClose, Golden, type GoldenCall } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

const GATE = 2e-4;

async function checkCall(
  device: Device,
  golden: Golden,
  config: Krea2TransformerConfig,
  weights: Weights,
  { name, args }: GoldenCall,
): Promise<void> {
  // The second row of the table, to see that a step finds its own.
  const times = timestepEmbedding(
    [500, 1000 * (args["time"] as number)],
    config.timestep_embed_dim,
  );
  const { shape: [, tokens], data } = golden.tensor(name, "states");
  const grid = { rows: args["rows"] as number, columns: args["columns"] as number };
  const inputs = {
    sample: golden.tensor(name, "latents"),
    states: { shape: [1, tokens!, data.length / tokens!], data },
    times: { shape: [2, config.timestep_embed_dim], data: times },
    step: { shape: [1], data: [1], dtype: "u32" as const },
  };
  using run = await ModelRun.prepare(device, weights, inputs, (graph, tensors) => {
    const { sample, states, times, step } = tensors;
    const context = krea2Context(graph, config, weights.root, states!);
    const table = timestepTable(config, weights.root, times!);
    const inputs = { context, sample: sample!, grid, times: table, step: step! };
    return { output: krea2Transformer(graph, config, weights.root, inputs) };
  });
  await run.run();
  assertClose(name, await run.read("output"), golden.tensor(name, "output"), GATE);
}

Deno.test("krea2Transformer() gives the outputs of krea2/tiny, whose widths fill no vector", async (t) => {
  const golden = new Golden("krea2/tiny");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(KREA2_TRANSFORMER_CONFIG, golden.config(), "config.json");
  const unused = await checkCalls(
    t,
    golden,
    checkpoint,
    (device, weights, call) => checkCall(device, golden, config, weights, call),
  );
  assert.deepEqual(unused, []);
});

Deno.test("KREA2_TRANSFORMER_CONFIG names what does not fit", () => {
  const parse = (json: object) => parseConfig(KREA2_TRANSFORMER_CONFIG, json, "config.json");
  assert.equal(parse({}).intermediate_size, 16384);
  const cases: readonly [object, RegExp][] = [
    [{ axes_dims_rope: [32, 48, 40] }, /axes_dims_rope is .*must be attention_head_dim = 128/],
    [{ num_key_value_heads: 9 }, /num_key_value_heads is 9: it must divide num_attention_heads/],
    [{ text_num_key_value_heads: 3 }, /it must divide text_num_attention_heads/],
    [{ text_num_attention_heads: 16 }, /text_hidden_dim = 2560 must give heads .* up to 128/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
