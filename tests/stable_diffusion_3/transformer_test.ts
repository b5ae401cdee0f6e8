/** The transformers of Stable Diffusion 3 and 3.5 against the reference. */
import assert from "node:assert/strict";
import { timestepEmbedding } from "../../models/blocks/embeddings.ts";
import { parseConfig } from "../../models/config.ts";
import {
  PATCH_SIDE,
  SD3_TRANSFORMER_CONFIG,
} from "../../models/families/stable_diffusion_3/config.ts";
import {
  modulationTables,
  TIMESTEP_CHANNELS,
} from "../../models/families/stable_diffusion_3/modulation.ts";
import {
  sd3Context,
  sd3Transformer,
} from "../../models/families/stable_diffusion_3/transformer.ts";
import { rearrange } from "../../models/rearrange.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { checkCalls, type InputValues, ModelRun } from "../support/model_run.ts";

/** Largest error of the velocity, as a part of its largest magnitude. */
const GATE = 1e-4;

for (const name of ["sd3", "medium", "large"]) {
  Deno.test(`sd3Transformer() gives the velocity of the reference, and without a layer: ${name}`, async (t) => {
    const golden = new Golden(`stable_diffusion_3/${name}`);
    using checkpoint = golden.checkpoint();
    const config = parseConfig(SD3_TRANSFORMER_CONFIG, golden.config(), "config.json");
    const unused = await checkCalls(t, golden, checkpoint, async (device, weights, call) => {
      const { timestep, skip_layers } = call.args as { timestep: number; skip_layers: number[] };
      const inputs: Record<string, InputValues> = {
        timestep: {
          shape: [1, TIMESTEP_CHANNELS],
          data: timestepEmbedding([timestep], TIMESTEP_CHANNELS),
        },
      };
      for (const input of call.inputs) inputs[input] = golden.tensor(call.name, input);
      const [, , height, width] = inputs["latents"]!.shape as [number, number, number, number];
      const grid = { rows: height / PATCH_SIDE, columns: width / PATCH_SIDE };
      const patches = { y: grid.rows, i: PATCH_SIDE, j: PATCH_SIDE };
      using run = await ModelRun.prepare(device, weights, inputs, (graph, given) => {
        const { root } = weights;
        const { latents, text, pooled, timestep } = given;
        const velocity = sd3Transformer(graph, config, root, {
          ...modulationTables(config, root, timestep!, pooled!),
          context: sd3Context(config, root, text!),
          sample: rearrange(latents!, "1 c (y i) (x j) -> 1 (y x) (i j c)", patches),
          grid,
          step: graph.constant("step", [1], "u32", Uint32Array.of(0)),
          skipped: skip_layers,
        });
        return {
          velocity: rearrange(velocity, "1 (y x) (i j c) -> 1 c (y i) (x j)", patches),
        };
      });
      await run.run();
      const expected = golden.tensor(call.name, "velocity");
      assertClose(call.name, await run.read("velocity"), expected, GATE);
    });
    assert.deepEqual(unused, []);
  });
}
