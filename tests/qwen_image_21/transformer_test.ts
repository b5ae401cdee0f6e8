/** The Qwen-Image-2.1 transformer against the reference. */
import { strict as assert } from "node:assert";
import { parseConfig } from "../../models/config.ts";
import { QWEN_IMAGE_21_TRANSFORMER_CONFIG } from "../../models/families/qwen_image_21/config.ts";
import {
  qwenImage21Context,
  qwenImage21Transformer,
  timestepTable,
} from "../../models/families/qwen_image_21/transformer.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

Deno.test("qwenImage21Transformer() gives the outputs of qwen_image_21/tiny, whose widths fill no vector", async (t) => {
  const golden = new Golden("qwen_image_21/tiny");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(QWEN_IMAGE_21_TRANSFORMER_CONFIG, golden.config(), "config.json");
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
      const timesteps = [500, 1000 * (args["time"] as number)];
      return {
        output: qwenImage21Transformer(graph, config, weights.root, {
          context: [
            qwenImage21Context(graph, config, weights.root, { segments: [{ tokens: states! }] }),
          ],
          place: states!.dim(1),
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

Deno.test("QWEN_IMAGE_21_TRANSFORMER_CONFIG names what does not fit", () => {
  const parse = (json: object) =>
    parseConfig(QWEN_IMAGE_21_TRANSFORMER_CONFIG, json, "config.json");
  assert.equal(parse({ out_channels: null }).num_layers, 32);
  const cases: readonly [object, RegExp][] = [
    [{ axes_dims_rope: [16, 56, 48] }, /axes_dims_rope is .*must be attention_head_dim = 128/],
    [{ out_channels: 32 }, /out_channels is 32: it must be in_channels = 64/],
    [{ causal_condition: false }, /text changes from step to step/],
    [{ patch_size: 2 }, /patch_size is 2/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
