/** The FLUX.1 transformer against the reference. */
import assert from "node:assert/strict";
import { hiddenSize, parseConfig } from "../../models/config.ts";
import { timestepEmbedding } from "../../models/blocks/embeddings.ts";
import { FLUX1_TRANSFORMER_CONFIG } from "../../models/families/flux1/config.ts";
import {
  EMBEDDING_CHANNELS,
  modulationOf,
  modulationTables,
} from "../../models/families/flux1/modulation.ts";
import { flux1Context } from "../../models/families/flux1/blocks.ts";
import { flux1Transformer } from "../../models/families/flux1/transformer.ts";
import { embeddingLayers } from "../../models/blocks/layers.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { checkCalls, type InputValues, ModelRun } from "../support/model_run.ts";

/** Largest error of the velocity, as a part of its largest magnitude. */
const GATE = 1e-4;

Deno.test("flux1Transformer() gives the velocity of the reference, from text and beside an input image", async (t) => {
  const golden = new Golden("flux1/tiny");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(FLUX1_TRANSFORMER_CONFIG, golden.config(), "config.json");
  const unused = await checkCalls(t, golden, checkpoint, async (device, weights, call) => {
    const { grid, reference, timestep, guidance } = call.args as {
      grid: [number, number];
      reference: [number, number] | null;
      timestep: number;
      guidance: number;
    };
    const embedding = (value: number): InputValues => ({
      shape: [1, EMBEDDING_CHANNELS],
      data: timestepEmbedding([Math.fround(value) * 1000], EMBEDDING_CHANNELS),
    });
    const inputs: Record<string, InputValues> = {
      timestep: embedding(timestep),
      guidance: embedding(guidance),
    };
    for (const name of call.inputs) inputs[name] = golden.tensor(call.name, name);
    const grids = [grid, ...reference ? [reference] : []]
      .map(([rows, columns]) => ({ rows, columns }));
    using run = await ModelRun.prepare(device, weights, inputs, (graph, given) => {
      const { root } = weights;
      const embedder = root.scope("time_text_embed").scope("text_embedder");
      const summary = embeddingLayers(embedder, given["pooled"]!, hiddenSize(config));
      return {
        velocity: flux1Transformer(graph, config, root, {
          context: flux1Context(config, root, given["context"]!),
          sample: given["sample"]!,
          reference: given["reference"],
          grids,
          modulation: modulationOf(
            modulationTables(config, root, {
              ...{ timesteps: given["timestep"]!, guidance: given["guidance"]!, summary },
            }),
            graph.constant("step", [1], "u32", Uint32Array.of(0)),
            hiddenSize(config),
          ),
        }),
      };
    });
    await run.run();
    const expected = golden.tensor(call.name, "velocity");
    assertClose(call.name, await run.read("velocity"), expected, GATE);
  });
  assert.deepEqual(unused, []);
});
