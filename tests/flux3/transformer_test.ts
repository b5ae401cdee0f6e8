/** The FLUX.3 transformer against the reference. */
import assert from "node:assert/strict";
import { parseConfig } from "../../models/config.ts";
import { FLUX3_TRANSFORMER_CONFIG } from "../../models/families/flux3/config.ts";
import { modesOf, modulationTable } from "../../models/families/flux3/modulation.ts";
import { flux3Context, flux3Transformer } from "../../models/families/flux3/transformer.ts";
import { slice } from "../../runtime/mod.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

Deno.test("flux3Transformer() gives the outputs of flux3/tiny, whose widths fill no vector", async (t) => {
  const golden = new Golden("flux3/tiny");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(FLUX3_TRANSFORMER_CONFIG, golden.config(), "config.json");
  const unused = await checkCalls(t, golden, checkpoint, async (device, weights, call) => {
    const args = call.args as {
      grid: [number, number];
      reference_grids: [number, number][];
      time: number;
      target: number;
    };
    const grid = ([rows, columns]: [number, number]) => ({ rows, columns });
    const inputs = Object.fromEntries(
      call.inputs.map((name) => [name, golden.tensor(call.name, name)]),
    );
    using run = await ModelRun.prepare(device, weights, inputs, (graph, given) => {
      const { latents, states, references } = given;
      // The second row of the table, to see that it is that of its step, and where this goes.
      const timesteps = Float64Array.of(500, 1000 * args.time, 1000 * args.target);
      const modes = modesOf(references !== undefined);
      const table = modulationTable(graph, config, weights.root, { timesteps }, modes);
      return {
        output: flux3Transformer(graph, config, weights.root, {
          context: flux3Context(config, weights.root, states!),
          sample: latents!,
          grid: grid(args.grid),
          references,
          referenceGrids: args.reference_grids.map(grid),
          modulation: slice(table, 0, 1, 2),
        }),
      };
    });
    await run.run();
    assertClose(call.name, await run.read("output"), golden.tensor(call.name, "output"), 2e-4);
  });
  assert.deepEqual(unused, []);
});

Deno.test("FLUX3_TRANSFORMER_CONFIG names what does not fit", () => {
  const parse = (json: object) => parseConfig(FLUX3_TRANSFORMER_CONFIG, json, "config.json");
  assert.equal(parse({ flow_map: true }).num_single_layers, 28);
  const cases: readonly [object, RegExp][] = [
    [{ axes_dims_rope: [32, 32, 32, 16] }, /its sum must be attention_head_dim = 128/],
    [{ attention_head_dim: 256 }, /attention_head_dim is 256/],
    [{ mlp_ratio: 2.5 }, /only whole ratios/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
