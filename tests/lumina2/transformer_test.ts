/** The Lumina-Image 2.0 transformer against the reference. */
import assert from "node:assert/strict";
import { parseConfig } from "../../models/config.ts";
import {
  hiddenFeatures,
  LUMINA2_TRANSFORMER_CONFIG,
  PATCH_SIDE,
} from "../../models/families/lumina2/config.ts";
import {
  lumina2Context,
  lumina2Transformer,
  timestepTable,
} from "../../models/families/lumina2/transformer.ts";
import { rearrange } from "../../models/rearrange.ts";
import { checkTransformer } from "../support/transformer_run.ts";

Deno.test("lumina2Transformer() gives the outputs of lumina2/tiny, whose widths fill no vector", (t) =>
  checkTransformer(
    t,
    "lumina2/tiny",
    LUMINA2_TRANSFORMER_CONFIG,
    (config, { graph, weights, latents, states, step, args }) => {
      const sides = { y: latents.dim(2) / PATCH_SIDE, i: PATCH_SIDE, j: PATCH_SIDE };
      const timesteps = [0.75, args["timestep"] as number];
      const output = lumina2Transformer(graph, config, weights, {
        context: lumina2Context(graph, config, weights, states),
        sample: rearrange(latents, "1 c (y i) (x j) -> 1 (y x) (i j c)", sides),
        grid: { rows: sides.y, columns: latents.dim(3) / PATCH_SIDE },
        times: timestepTable(graph, config, weights, timesteps),
        step,
      });
      return rearrange(output, "1 (y x) (i j c) -> 1 c (y i) (x j)", sides);
    },
  ));

Deno.test("LUMINA2_TRANSFORMER_CONFIG names what does not fit", () => {
  const parse = (json: object) => parseConfig(LUMINA2_TRANSFORMER_CONFIG, json, "config.json");
  assert.equal(hiddenFeatures(parse({})), 9216);
  const cases: readonly [object, RegExp][] = [
    [{ axes_dim_rope: [32, 32, 40] }, /axes_dim_rope is .*must be the width of a head, 96/],
    [{ num_attention_heads: 16 }, /num_attention_heads is 16: it must give heads/],
    [{ num_kv_heads: 7 }, /num_kv_heads is 7: it must divide num_attention_heads/],
    [{ out_channels: 32 }, /out_channels is 32/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
