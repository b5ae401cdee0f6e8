/** The ERNIE-Image transformer against the reference. */
import { strict as assert } from "node:assert";
import { parseConfig } from "../../models/config.ts";
import { ERNIE_IMAGE_TRANSFORMER_CONFIG } from "../../models/families/ernie_image/config.ts";
import {
  ernieImageContext,
  ernieImageTransformer,
  timestepTable,
} from "../../models/families/ernie_image/transformer.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

Deno.test("ernieImageTransformer() gives the outputs of ernie_image/tiny, whose widths fill no vector", async (t) => {
  const golden = new Golden("ernie_image/tiny");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(ERNIE_IMAGE_TRANSFORMER_CONFIG, golden.config(), "config.json");
  const unused = await checkCalls(t, golden, checkpoint, async (device, weights, call) => {
    const { name, args } = call;
    const grid = { rows: args["rows"] as number, columns: args["columns"] as number };
    const inputs = {
      sample: golden.tensor(name, "latents"),
      states: golden.tensor(name, "states"),
      step: { shape: [1], data: [1], dtype: "u32" as const },
    };
    using run = await ModelRun.prepare(device, weights, inputs, (graph, tensors) => {
      const { sample, states, step } = tensors;
      // The second row of the table, to see that a step finds its own.
      const timesteps = [500, args["timestep"] as number];
      return {
        output: ernieImageTransformer(graph, config, weights.root, {
          context: ernieImageContext(config, weights.root, states!),
          sample: sample!,
          grid,
          times: timestepTable(graph, config, weights.root, timesteps),
          step: step!,
        }),
      };
    });
    await run.run();
    assertClose(name, await run.read("output"), golden.tensor(name, "output"), 2e-4);
  });
  assert.deepEqual(unused, []);
});

Deno.test("ERNIE_IMAGE_TRANSFORMER_CONFIG names what does not fit", () => {
  const parse = (json: object) => parseConfig(ERNIE_IMAGE_TRANSFORMER_CONFIG, json, "config.json");
  assert.equal(parse({ out_channels: 128 }).num_layers, 24);
  const cases: readonly [object, RegExp][] = [
    [{ rope_axes_dim: [32, 48, 40] }, /rope_axes_dim is .*must be the width of a head, 128/],
    [{ num_attention_heads: 25 }, /num_attention_heads is 25: it must give heads/],
    [{ out_channels: 32 }, /out_channels is 32/],
    [{ qk_layernorm: false }, /qk_layernorm is false/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
