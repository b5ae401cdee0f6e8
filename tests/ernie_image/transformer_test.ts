/** The ERNIE-Image transformer against the reference. */
import { strict as assert } from "node:assert";
import { parseConfig } from "../../models/config.ts";
import { ERNIE_IMAGE_TRANSFORMER_CONFIG } from "../../models/families/ernie_image/config.ts";
import {
  ernieImageContext,
  ernieImageTransformer,
  timestepTable,
} from "../../models/families/ernie_image/transformer.ts";
import { checkTransformer, gridOf } from "../support/transformer_run.ts";

Deno.test("ernieImageTransformer() gives the outputs of ernie_image/tiny, whose widths fill no vector", (t) =>
  checkTransformer(
    t,
    "ernie_image/tiny",
    ERNIE_IMAGE_TRANSFORMER_CONFIG,
    (config, { graph, weights, latents, states, step, args }) =>
      ernieImageTransformer(graph, config, weights, {
        context: ernieImageContext(config, weights, states),
        sample: latents,
        grid: gridOf(args),
        times: timestepTable(graph, config, weights, [500, args["timestep"] as number]),
        step,
      }),
  ));

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
