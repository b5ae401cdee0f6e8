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
import { assertClose, Golden } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

Deno.test("auraFlowTransformer() gives the outputs of auraflow/tiny, whose widths fill no vector", async (t) => {
  const golden = new Golden("auraflow/tiny");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(AURAFLOW_TRANSFORMER_CONFIG, golden.config(), "config.json");
  const unused = await checkCalls(t, golden, checkpoint, async (device, weights, call) => {
    const { name, args } = call;
    const latents = golden.tensor(name, "latents");
    const [, , height, width] = latents.shape as [number, number, number, number];
    const grid = { rows: height / PATCH_SIDE, columns: width / PATCH_SIDE };
    const sides = { y: grid.rows, i: PATCH_SIDE, j: PATCH_SIDE };
    const inputs = {
      latents,
      states: golden.tensor(name, "states"),
      step: { shape: [1], data: [1], dtype: "u32" as const },
    };
    using run = await ModelRun.prepare(device, weights, inputs, (graph, tensors) => {
      const { latents, states, step } = tensors;
      // The second row of the tables, to see that a step finds its own.
      const timesteps = [0.5, unitTimestep(args["timestep"] as number)];
      const output = auraFlowTransformer(graph, config, weights.root, {
        context: auraFlowContext(config, weights.root, states!),
        sample: rearrange(latents!, "1 c (y i) (x j) -> 1 (y x) (c i j)", sides),
        grid,
        ...auraFlowTables(graph, config, weights.root, timesteps),
        step: step!,
      });
      return { output: rearrange(output, "1 (y x) (i j c) -> 1 c (y i) (x j)", sides) };
    });
    await run.run();
    assertClose(name, await run.read("output"), golden.tensor(name, "output"), 2e-4);
  });
  assert.deepEqual(unused, []);
});

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
