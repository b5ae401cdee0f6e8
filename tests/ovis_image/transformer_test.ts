/** The Ovis-Image transformer against the reference. */
import assert from "node:assert/strict";
import { viewLayout } from "../../models/checkpoints/layout_view.ts";
import { timestepConstant } from "../../models/blocks/embeddings.ts";
import { parseConfig } from "../../models/config.ts";
import { EMBEDDING_CHANNELS, modulationOf } from "../../models/families/flux1/modulation.ts";
import { flux1Transformer } from "../../models/families/flux1/transformer.ts";
import { OVIS_IMAGE_TRANSFORMER_CONFIG } from "../../models/families/ovis_image/config.ts";
import { DIFFUSERS_OVIS_IMAGE } from "../../models/families/ovis_image/names.ts";
import {
  ovisImageContext,
  ovisImagePlaces,
  ovisImageTables,
} from "../../models/families/ovis_image/transformer.ts";
import { hiddenSize } from "../../models/config.ts";
import { Weights } from "../../runtime/mod.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

Deno.test("the blocks of FLUX.1 with gates give the outputs of ovis_image/tiny, whose widths fill no vector", async (t) => {
  const golden = new Golden("ovis_image/tiny");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(OVIS_IMAGE_TRANSFORMER_CONFIG, golden.config(), "config.json");
  const weights = new Weights(viewLayout(checkpoint, DIFFUSERS_OVIS_IMAGE));
  await checkCalls(t, golden, checkpoint, async (device, _, call) => {
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
      const tables = ovisImageTables(config, weights.root, embedded);
      return {
        output: flux1Transformer(graph, config, weights.root, {
          context: ovisImageContext(config, weights.root, states!),
          sample: sample!,
          grids: [grid],
          places: ovisImagePlaces(states!.dim(1), [grid]),
          kind: "swiglu",
          modulation: modulationOf(tables, step!, hiddenSize(config)),
        }),
      };
    });
    await run.run();
    assertClose(name, await run.read("output"), golden.tensor(name, "output"), 2e-4);
  });
  assert.deepEqual(weights.unused, []);
});
