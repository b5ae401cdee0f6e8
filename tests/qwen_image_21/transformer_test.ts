/** The Qwen-Image-2.1 transformer against the reference. */
import { strict as assert } from "node:assert";
import { parseConfig } from "../../models/config.ts";
import { QWEN_IMAGE_21_TRANSFORMER_CONFIG } from "../../models/families/qwen_image_21/config.ts";
import {
  qwenImage21Context,
  qwenImage21Transformer,
  timestepTable,
} from "../../models/families/qwen_image_21/transformer.ts";
import { checkTransformer, gridOf } from "../support/transformer_run.ts";

Deno.test("qwenImage21Transformer() gives the outputs of qwen_image_21/tiny, whose widths fill no vector", (t) =>
  checkTransformer(
    t,
    "qwen_image_21/tiny",
    QWEN_IMAGE_21_TRANSFORMER_CONFIG,
    (config, { graph, weights, latents, states, step, args }) =>
      qwenImage21Transformer(graph, config, weights, {
        context: [qwenImage21Context(graph, config, weights, { segments: [{ tokens: states }] })],
        place: states.dim(1),
        sample: latents,
        grid: gridOf(args),
        times: timestepTable(graph, config, weights, [500, 1000 * (args["time"] as number)]),
        step,
      }),
  ));

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
