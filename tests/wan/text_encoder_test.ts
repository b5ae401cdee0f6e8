/** The UMT5 encoder against the reference. */
import { strict as assert } from "node:assert";
import { parseConfig } from "../../models/config.ts";
import { UMT5_CONFIG, umt5Embeddings, umt5Encoder } from "../../models/text_encoders/umt5.ts";
import { type Device, Weights } from "../../runtime/mod.ts";
import { assertClose, Golden, rowsOf, transpose, type Values } from "../support/golden.ts";
import { ModelRun, openTestDevice } from "../support/model_run.ts";

/** One program per golden call: the ids it is given, and the last hidden state of all rows. */
async function encode(
  device: Device,
  golden: Golden,
  weights: Weights,
  call: string,
): Promise<Values> {
  const config = parseConfig(UMT5_CONFIG, golden.config(), "config.json");
  const ids = golden.tensor(call, "input_ids");
  const lengths = golden.call(call).args["lengths"] as number[];
  using run = await ModelRun.prepare(
    device,
    weights,
    {
      embeddings: {
        shape: [...ids.shape, config.d_model],
        data: umt5Embeddings(config, weights, Array.from(ids.data)),
      },
      lengths: { shape: [lengths.length], data: lengths, dtype: "u32" },
    },
    (graph, { embeddings, lengths }) => ({
      states: umt5Encoder(graph, config, weights.root, {
        embeddings: embeddings!,
        lengths: lengths!,
      }),
    }),
  );
  await run.run();
  return await run.read("states");
}

for (const name of ["umt5-tiny", "umt5-hd64"]) {
  Deno.test(`umt5Encoder() gives the states of ${name}, pads hidden`, async (t) => {
    const device = await openTestDevice();
    const golden = new Golden(`wan/${name}`);
    using checkpoint = golden.checkpoint();
    const weights = new Weights(checkpoint);
    try {
      for (const { name: call, args } of golden.calls) {
        await t.step(call, async () => {
          const states = await encode(device, golden, weights, call);
          const expected = golden.tensor(call, "last_hidden_state");
          const rows = args["rows"] as number;
          const stored = transpose(rowsOf(transpose(states, [1, 0, 2]), 0, rows), [1, 0, 2]);
          assertClose(`${name} ${call}`, stored, expected, 1e-4);
        });
      }
      assert.deepEqual(weights.unused, []);
    } finally {
      weights.destroy();
      device.destroy();
    }
  });
}
