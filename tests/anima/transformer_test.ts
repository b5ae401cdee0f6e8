/** Anima's transformer against the reference. */
import { strict as assert } from "node:assert";
import { parseConfig } from "../../models/config.ts";
import { timestepEmbedding } from "../../models/blocks/embeddings.ts";
import { ANIMA_TRANSFORMER_CONFIG } from "../../models/families/anima/config.ts";
import { animaTransformer, modulationTables } from "../../models/families/anima/transformer.ts";
import { hiddenSize } from "../../models/config.ts";
import { rearrange } from "../../models/rearrange.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

const GATE = 2e-4;

Deno.test("animaTransformer() gives the outputs of anima/tiny, whose widths fill no vector", async (t) => {
  const golden = new Golden("anima/tiny");
  using checkpoint = golden.checkpoint();
  const config = parseConfig(ANIMA_TRANSFORMER_CONFIG, golden.config(), "config.json");
  const dim = hiddenSize(config);
  const unused = await checkCalls(t, golden, checkpoint, async (device, weights, call) => {
    const { name, args } = call;
    // The second row of the tables, to see that a step finds its own.
    const times = timestepEmbedding([0.5, args["time"] as number], dim);
    const latents = golden.tensor(name, "latents");
    const [, , height, width] = latents.shape as [number, number, number, number];
    const inputs = {
      latents,
      context: golden.tensor(name, "context"),
      times: { shape: [2, dim], data: times },
      step: { shape: [1], data: [1], dtype: "u32" as const },
    };
    const grid = { rows: height / 2, columns: width / 2 };
    const sides = { y: grid.rows, i: 2, j: 2 };
    using run = await ModelRun.prepare(device, weights, inputs, (graph, tensors) => {
      const { latents, context, times, step } = tensors;
      const output = animaTransformer(graph, config, weights.root, {
        context: context!,
        sample: rearrange(latents!, "1 c (y i) (x j) -> 1 (y x) (c i j)", sides),
        ...{ grid, step: step! },
        ...modulationTables(config, weights.root, times!),
      });
      return { output: rearrange(output, "1 (y x) (i j c) -> 1 c (y i) (x j)", sides) };
    });
    await run.run();
    assertClose(name, await run.read("output"), golden.tensor(name, "output"), GATE);
  });
  assert.deepEqual(unused, []);
});

Deno.test("ANIMA_TRANSFORMER_CONFIG refuses what Cosmos-Predict2's other models have", () => {
  const parse = (json: object) => parseConfig(ANIMA_TRANSFORMER_CONFIG, json, "config.json");
  assert.deepEqual(parse({}).rope_scale, [1, 4, 4]);
  const cases: readonly [object, RegExp][] = [
    [{ extra_pos_embed_type: "learnable" }, /models with learned positions are not supported/],
    [{ use_crossattn_projection: true }, /models with a projection of the prompt/],
    [{ out_channels: 8 }, /it must be in_channels = 16/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
