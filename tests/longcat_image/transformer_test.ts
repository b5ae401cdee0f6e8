/** The LongCat-Image transformer against the reference. */
import assert from "node:assert/strict";
import { timestepConstant } from "../../models/blocks/embeddings.ts";
import { hiddenSize, parseConfig } from "../../models/config.ts";
import { flux1Context } from "../../models/families/flux1/blocks.ts";
import { EMBEDDING_CHANNELS, modulationOf } from "../../models/families/flux1/modulation.ts";
import { flux1Transformer } from "../../models/families/flux1/transformer.ts";
import { LONGCAT_IMAGE_TRANSFORMER_CONFIG } from "../../models/families/longcat_image/config.ts";
import {
  longCatImagePlaces,
  longCatImageTables,
} from "../../models/families/longcat_image/transformer.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

Deno.test("the blocks of FLUX.1 give the outputs of longcat_image/tiny, whose widths fill no vector", async (t) => {
  const golden = new Golden("longcat_image/tiny");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(LONGCAT_IMAGE_TRANSFORMER_CONFIG, golden.config(), "config.json");
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
      const embedded = timestepConstant(graph, timesteps, EMBEDDING_CHANNELS);
      const tables = longCatImageTables(config, weights.root, embedded);
      return {
        output: flux1Transformer(graph, config, weights.root, {
          context: flux1Context(config, weights.root, states!),
          sample: sample!,
          grids: [grid],
          places: longCatImagePlaces(states!.dim(1), [grid]),
          modulation: modulationOf(tables, step!, hiddenSize(config)),
        }),
      };
    });
    await run.run();
    assertClose(name, await run.read("output"), golden.tensor(name, "output"), 2e-4);
  });
  assert.deepEqual(unused, []);
});
