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
import { assertClose, Golden } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

Deno.test("lumina2Transformer() gives the outputs of lumina2/tiny, whose widths fill no vector", async (t) => {
  const golden = new Golden("lumina2/tiny");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(LUMINA2_TRANSFORMER_CONFIG, golden.config(), "config.json");
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
      // The second row of the table, to see that a step finds its own.
      const timesteps = [0.75, args["timestep"] as number];
      const output = lumina2Transformer(graph, config, weights.root, {
        context: lumina2Context(graph, config, weights.root, states!),
        sample: rearrange(latents!, "1 c (y i) (x j) -> 1 (y x) (i j c)", sides),
        grid,
        times: timestepTable(graph, config, weights.root, timesteps),
        step: step!,
      });
      return { output: rearrange(output, "1 (y x) (i j c) -> 1 c (y i) (x j)", sides) };
    });
    await run.run();
    assertClose(name, await run.read("output"), golden.tensor(name, "output"), 2e-4);
  });
  assert.deepEqual(unused, []);
});

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
