/** The Ideogram 4 transformer against the reference. */
import assert from "node:assert/strict";
import { parseConfig } from "../../models/config.ts";
import { IDEOGRAM4_TRANSFORMER_CONFIG } from "../../models/families/ideogram4/config.ts";
import {
  ideogram4Context,
  ideogram4Transformer,
  timestepTable,
} from "../../models/families/ideogram4/transformer.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

/** Layers whose states lie side by side. */
const LAYERS = 13;

Deno.test("ideogram4Transformer() gives the outputs of ideogram4/tiny, whose widths fill no vector, with text and without", async (t) => {
  const golden = new Golden("ideogram4/tiny");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(IDEOGRAM4_TRANSFORMER_CONFIG, golden.config(), "config.json");
  const unused = await checkCalls(t, golden, checkpoint, async (device, weights, call) => {
    const { name, args } = call;
    const grid = { rows: args["rows"] as number, columns: args["columns"] as number };
    const given = call.inputs.includes("states") ? golden.tensor(name, "states") : undefined;
    const inputs = {
      sample: golden.tensor(name, "latents"),
      ...(given && { states: bySource(given) }),
      step: { shape: [1], data: [1], dtype: "u32" as const },
    };
    using run = await ModelRun.prepare(device, weights, inputs, (graph, tensors) => {
      const { sample, step } = tensors;
      const states = (tensors as { states?: typeof sample }).states;
      // The second row of the table, to see that a step finds its own.
      const timesteps = [500, 1000 * (1 - (args["time"] as number))];
      return {
        output: ideogram4Transformer(graph, config, weights.root, {
          context: states && ideogram4Context(graph, config, weights.root, states, LAYERS),
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

/** Features as the text encoder gives them: those of one layer after those of another. */
function bySource({ shape, data }: ReturnType<Golden["tensor"]>) {
  const width = shape.at(-1)! / LAYERS;
  const moved = Float32Array.from(data);
  Array.from(data).forEach((value, i) => {
    const [row, at] = [Math.floor(i / (LAYERS * width)), i % (LAYERS * width)];
    moved[row * LAYERS * width + (at % LAYERS) * width + Math.floor(at / LAYERS)] = value;
  });
  return { shape, data: moved };
}
