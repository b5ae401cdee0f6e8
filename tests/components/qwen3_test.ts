/** The Qwen3 text encoder against the reference. */
import { strict as assert } from "node:assert";
import { parseConfig } from "../../models/config.ts";
import { qwenEncoder, tokenEmbeddings } from "../../models/text_encoders/qwen.ts";
import { QWEN3_CONFIG } from "../../models/text_encoders/qwen3.ts";
import { type Checkpoint, type Device, type DeviceOptions, Weights } from "../../runtime/mod.ts";
import { assertClose, Golden, type GoldenCall, rowsOf, transpose } from "../support/golden.ts";
import { ModelRun, openTestDevice } from "../support/model_run.ts";

const GATE = 1e-4;
/** Largest error with factors that are rounded to f16. */
const HALF_GATE = 2e-3;

async function checkCall(
  device: Device,
  golden: Golden,
  weights: Weights,
  { name, args }: GoldenCall,
  gate: number,
): Promise<void> {
  const config = parseConfig(QWEN3_CONFIG, golden.config(), "config.json");
  const [lengths, layers, kept] = ["lengths", "layers", "kept"].map((key) => args[key] as number[]);
  const { shape, data } = golden.tensor(name, "input_ids");
  const embeddings = {
    shape: [...shape, config.hidden_size],
    data: tokenEmbeddings(config, weights, Array.from(data)),
  };
  using run = await ModelRun.prepare(
    device,
    weights,
    { embeddings, lengths: { shape: [shape[0]!], data: lengths!, dtype: "u32" } },
    (graph, { embeddings, lengths }) => {
      const inputs = { embeddings: embeddings!, lengths: lengths! };
      const states = qwenEncoder(graph, config, weights.root, inputs, layers!);
      return Object.fromEntries(states.map((state, i) => [`states${layers![i]}`, state]));
    },
  );
  await run.run();
  for (const layer of layers!) {
    const byToken = transpose(await run.read(`states${layer}`), [1, 0, 2]);
    const rows = kept!.map((token) => rowsOf(byToken, token, token + 1));
    const states = {
      shape: [rows.length, ...byToken.shape.slice(1)],
      data: rows.flatMap((row) => Array.from(row.data)),
    };
    const expected = golden.tensor(name, `states${layer}`);
    assertClose(`${name} states${layer}`, transpose(states, [1, 0, 2]), expected, gate);
  }
}

async function checkGolden(
  t: Deno.TestContext,
  golden: Golden,
  checkpoint: Checkpoint,
  unused: readonly string[],
  { gate = GATE, ...options }: DeviceOptions & { readonly gate?: number } = {},
): Promise<void> {
  const device = await openTestDevice(options);
  const weights = new Weights(checkpoint);
  try {
    for (const call of golden.calls) {
      await t.step(call.name, () => checkCall(device, golden, weights, call, gate));
    }
    assert.deepEqual(weights.unused.filter((name) => !name.startsWith("layers.2.")), unused);
  } finally {
    weights.destroy();
    device.destroy();
  }
}

Deno.test("qwenEncoder() gives the states of qwen3/tiny after chosen layers, those of pads too", async (t) => {
  const golden = new Golden("qwen3/tiny");
  using checkpoint = golden.checkpoint();
  await checkGolden(t, golden, checkpoint, []);
});

Deno.test("qwenEncoder() gives the states at widths of real models, and needs no layer beyond the last chosen", async (t) => {
  const golden = new Golden("qwen3/wide");
  using checkpoint = golden.checkpoint();
  await checkGolden(t, golden, checkpoint, ["norm.weight"]);
});

Deno.test({
  name:
    "qwenEncoder() gives the states with a GPU's kernels and factors that are rounded to f16 (slow)",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async (t) => {
    const golden = new Golden("qwen3/wide");
    using checkpoint = golden.checkpoint();
    const options = { schedule: "gpu", operands: "f16", gate: HALF_GATE } as const;
    await checkGolden(t, golden, checkpoint, ["norm.weight"], options);
  },
});

Deno.test("tokenEmbeddings() refuses ids outside the vocabulary", () => {
  const golden = new Golden("qwen3/tiny");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(QWEN3_CONFIG, golden.config(), "config.json");
  for (const id of [97, -1, NaN]) {
    assert.throws(
      () => tokenEmbeddings(config, new Weights(checkpoint), [3, id]),
      {
        name: "RangeError",
        message: `Cannot embed token ${id}: the text encoder's vocab_size is 97`,
      },
    );
  }
});

Deno.test("QWEN3_CONFIG takes the base of the rotary frequencies from where either version of transformers writes it", () => {
  const theta = (json: object) => parseConfig(QWEN3_CONFIG, json, "config.json").rope_theta;
  assert.equal(theta({ rope_theta: 1e6 }), 1e6);
  assert.equal(theta({ rope_parameters: { rope_type: "default", rope_theta: 5e5 } }), 5e5);
  assert.equal(theta({}), 10000);
  assert.throws(() => theta({ rope_parameters: { rope_type: "yarn" } }), SyntaxError);
  assert.throws(() => theta({ num_attention_heads: 8, num_key_value_heads: 3 }), {
    message: /num_key_value_heads is 3: it must divide num_attention_heads/,
  });
});
