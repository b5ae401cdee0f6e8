/** Gemma's states against the reference. */
import assert from "node:assert/strict";
import { parseConfig } from "../../models/config.ts";
import { gemma3Embeddings, gemma3Encoder } from "../../models/text_encoders/gemma3.ts";
import type { GEMMA2_CONFIG } from "../../models/text_encoders/gemma2.ts";
import type { GEMMA3_CONFIG } from "../../models/text_encoders/gemma3_config.ts";
import { assertClose, Golden, rowsOf } from "./golden.ts";
import { checkCalls, ModelRun } from "./model_run.ts";

/** Checks all states of texts of several lengths, which are filled up to the longest one. */
export async function checkGemmaStates(
  t: Deno.TestContext,
  name: string,
  schema: typeof GEMMA2_CONFIG | typeof GEMMA3_CONFIG,
): Promise<void> {
  const golden = new Golden(name);
  using checkpoint = golden.checkpoint();
  const config = parseConfig(schema, golden.config(), "config.json");
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
}
