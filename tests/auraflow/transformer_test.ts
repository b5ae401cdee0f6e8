/** The AuraFlow transformer against the reference. */
import assert from "node:assert/strict";
import { unitTimestep } from "../../models/blocks/embeddings.ts";
import { parseConfig } from "../../models/config.ts";
import {
  AURAFLOW_TRANSFORMER_CONFIG,
  hiddenFeatures,
  PATCH_SIDE,
} from "../../models/families/auraflow/config.ts";
import {
  auraFlowContext,
  auraFlowTables,
  auraFlowTransformer,
} from "../../models/families/auraflow/transformer.ts";
import { rearrange } from "../../models/rearrange.ts";
import { checkTransformer } from "../support/transformer_run.ts";

Deno.test("auraFlowTransformer() gives the outputs of auraflow/tiny, whose widths fill no vector", (t) =>
  checkTransformer(
    t,
    "auraflow/tiny",
    AURAFLOW_TRANSFORMER_CONFIG,
    (config, { graph, weights, latents, states, step, args }) => {
      const sides = { y: latents.dim(2) / PATCH_SIDE, i: PATCH_SIDE, j: PATCH_SIDE };
      const timesteps = [0.5, unitTimestep(args["timestep"] as number)];
      const output = auraFlowTransformer(graph, config, weights, {
        context: auraFlowContext(config, weights, states),
        sample: rearrange(latents, "1 c (y i) (x j) -> 1 (y x) (c i j)", sides),
        grid: { rows: sides.y, columns: latents.dim(3) / PATCH_SIDE },
        ...auraFlowTables(graph, config, weights, timesteps),
        step,
      });
      return rearrange(output, "1 (y x) (i j c) -> 1 c (y i) (x j)", sides);
    },
  ));

Deno.test("AURAFLOW_TRANSFORMER_CONFIG names what does not fit", () => {
  const parse = (json: object) => parseConfig(AURAFLOW_TRANSFORMER_CONFIG, json, "config.json");
  assert.equal(hiddenFeatures(parse({})), 8192);
  const cases: readonly [object, RegExp][] = [
    [{ caption_projection_dim: 2048 }, /caption_projection_dim is 2048: it must be .*3072/],
    [{ pos_embed_max_size: 1000 }, /pos_embed_max_size is 1000: it must be a square number/],
    [{ out_channels: 8 }, /out_channels is 8/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
