/** The connectors of LTX-2 against the reference. */
import assert from "node:assert/strict";
import { parseConfig } from "../../models/config.ts";
import { LTX2_CONNECTORS_CONFIG } from "../../models/families/ltx2/config.ts";
import {
  connectorSources,
  ltx2Connectors,
  ltx2Projection,
} from "../../models/families/ltx2/connectors.ts";
import { slice } from "../../runtime/mod.ts";
import { assertClose, Golden, rowsOf } from "../support/golden.ts";
import { checkCalls, type InputValues, ModelRun } from "../support/model_run.ts";

for (
  const [title, name] of [
    [
      "ltx2Connectors() gives the prompts of ltx2/connectors, which is projected once",
      "ltx2/connectors",
    ],
    [
      "ltx2Connectors() gives those of LTX-2.3, with gates and a projection for each modality",
      "ltx2/connectors23",
    ],
  ] as const
) {
  Deno.test(title, async (t) => {
    const golden = new Golden(name);
    using checkpoint = golden.checkpoint();
    const config = parseConfig(LTX2_CONNECTORS_CONFIG, golden.config(), "config.json");
    const unused = await checkCalls(t, golden, checkpoint, async (device, weights, call) => {
      const [lengths, tokens] = [call.args["lengths"] as number[], call.args["tokens"] as number];
      for (const [i, length] of lengths.entries()) {
        const { shape: [layers], data } = golden.tensor(call.name, `states${i}`);
        const size = data.length / layers!;
        const width = size / length;
        // More rows than tokens, and something in them.
        const rows = length + 2;
        const padded = new Float32Array(layers! * rows * width).fill(99);
        for (let layer = 0; layer < layers!; layer++) {
          padded.set(
            Array.from(data).slice(layer * size, (layer + 1) * size),
            layer * rows * width,
          );
        }
        const registers = config.video_connector_num_learnable_registers;
        const inputs: Record<string, InputValues> = {
          states: { shape: [layers!, rows, width], data: padded },
          mask: {
            shape: [1, rows, 1],
            data: Array.from({ length: rows }, (_, i) => Number(i < length)),
          },
          sources: {
            shape: [1, tokens],
            data: connectorSources(length, rows, tokens, registers),
            dtype: "u32",
          },
        };
        using run = await ModelRun.prepare(device, weights, inputs, (_, tensors) => {
          const { states, mask, sources } = tensors as Record<
            "states" | "mask" | "sources",
            typeof tensors[string]
          >;
          const each = Array.from(
            { length: layers! },
            (_, layer) => slice(states!, 0, layer, layer + 1),
          );
          const projected = ltx2Projection(config, weights.root, each, mask!, { rowsAtOnce: 5 });
          return {
            ...ltx2Connectors(config, weights.root, projected, {
              video: sources!,
              audio: sources!,
            }),
          };
        });
        await run.run();
        for (const output of ["video", "audio"]) {
          const expected = rowsOf(golden.tensor(call.name, output), i, i + 1);
          assertClose(`${output} of ${i}`, await run.read(output), expected, 1e-4);
        }
      }
    });
    assert.deepEqual(unused, []);
  });
}

Deno.test("LTX2_CONNECTORS_CONFIG names what does not fit", () => {
  const parse = (json: object) => parseConfig(LTX2_CONNECTORS_CONFIG, json, "config.json");
  assert.equal(parse({}).text_proj_in_factor, 49);
  const cases: readonly [object, RegExp][] = [
    [
      { video_connector_num_learnable_registers: null },
      /a connector without registers is not supported/,
    ],
    [
      { audio_connector_attention_head_dim: 64 },
      /heads of all make a width of 1920, and the prompt's is 3840/,
    ],
    [
      { per_modality_projections: true },
      /video_connector_num_attention_heads .*width of 3840, and the prompt's is 4096/,
    ],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
