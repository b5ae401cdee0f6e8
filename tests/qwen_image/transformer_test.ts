/** The Qwen-Image transformer against the reference. */
import { strict as assert } from "node:assert";
import { parseConfig } from "../../models/config.ts";
import { timestepEmbedding } from "../../models/blocks/embeddings.ts";
import {
  QWEN_IMAGE_TRANSFORMER_CONFIG,
  type QwenImageTransformerConfig,
} from "../../models/families/qwen_image/config.ts";
import {
  modulationTables,
  TIMESTEP_CHANNELS,
  TIMESTEP_SCALE,
} from "../../models/families/qwen_image/modulation.ts";
import { unitTimestep } from "../../models/blocks/embeddings.ts";
import { qwenImageContext } from "../../models/families/qwen_image/blocks.ts";
import { qwenImageTransformer } from "../../models/families/qwen_image/transformer.ts";
import { type Device, slice, type Weights } from "../../runtime/mod.ts";
import { assertClose, Golden, type GoldenCall } from "../support/golden.ts";
import { checkCalls, ModelRun } from "../support/model_run.ts";

const GATE = 2e-4;

async function checkCall(
  device: Device,
  golden: Golden,
  config: QwenImageTransformerConfig,
  weights: Weights,
  { name, args }: GoldenCall,
): Promise<void> {
  const timestep = unitTimestep(args["timestep"] as number);
  // The second row of the tables, to see that a step finds its own; the last one is of the end.
  const times = timestepEmbedding([0.5, timestep, 0], TIMESTEP_CHANNELS, TIMESTEP_SCALE);
  const [grid, ...referenceGrids] = (args["grids"] as number[][]).map(([rows, columns]) => ({
    rows: rows!,
    columns: columns!,
  }));
  const inputs = {
    latents: golden.tensor(name, "latents"),
    states: golden.tensor(name, "states"),
    times: { shape: [3, TIMESTEP_CHANNELS], data: times },
    step: { shape: [1], data: [1], dtype: "u32" as const },
  };
  using run = await ModelRun.prepare(device, weights, inputs, (graph, tensors) => {
    const { latents, states, times, step } = tensors;
    const own = grid!.rows * grid!.columns;
    const others = referenceGrids.length > 0 ? slice(latents!, 1, own) : undefined;
    return {
      output: qwenImageTransformer(graph, config, weights.root, {
        context: qwenImageContext(graph, config, weights.root, states!),
        sample: slice(latents!, 1, 0, own),
        ...{ grids: [grid!], references: others, referenceGrids, step: step! },
        ...modulationTables(config, weights.root, times!),
      }),
    };
  });
  await run.run();
  assertClose(name, await run.read("output"), golden.tensor(name, "output"), GATE);
}

for (const name of ["tiny", "zero"]) {
  Deno.test(`qwenImageTransformer() gives the outputs of qwen_image/${name}, odd grids and references too`, async (t) => {
    const golden = new Golden(`qwen_image/${name}`);
    using checkpoint = golden.checkpoint();
    const config = parseConfig(QWEN_IMAGE_TRANSFORMER_CONFIG, golden.config(), "config.json");
    const unused = await checkCalls(
      t,
      golden,
      checkpoint,
      (device, weights, call) => checkCall(device, golden, config, weights, call),
    );
    assert.deepEqual(unused, []);
  });
}

Deno.test("QWEN_IMAGE_TRANSFORMER_CONFIG names what does not fit or is not supported", () => {
  const parse = (json: object) => parseConfig(QWEN_IMAGE_TRANSFORMER_CONFIG, json, "config.json");
  assert.equal(parse({}).num_layers, 60);
  const cases: readonly [object, RegExp][] = [
    [{ guidance_embeds: true }, /guidance_embeds is true: transformers that take the guidance/],
    [{ axes_dims_rope: [16, 56, 48] }, /axes_dims_rope is .*must be attention_head_dim = 128/],
    [{ out_channels: 4 }, /out_channels is 4: patches of 2 x 2 must have in_channels = 64/],
  ];
  for (const [json, message] of cases) {
    assert.throws(() => parse(json), { name: "SyntaxError", message });
  }
});
