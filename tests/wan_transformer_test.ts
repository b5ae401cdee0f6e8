/** The Wan transformer against the reference. */
import { strict as assert } from "node:assert";
import { parseConfig } from "../models/config.ts";
import { timestepEmbedding } from "../models/embeddings.ts";
import {
  WAN_TRANSFORMER_CONFIG,
  type WanTransformerConfig,
} from "../models/families/wan/config.ts";
import { modulationIndices, tableRows, timestepRows } from "../models/families/wan/modulation.ts";
import { patchify, tokenGrid, unpatchify } from "../models/families/wan/patches.ts";
import { wanContextStates, wanTransformer } from "../models/families/wan/transformer.ts";
import {
  type Device,
  elementCount,
  type Graph,
  permute,
  type Tensor,
  Weights,
} from "../runtime/mod.ts";
import { assertClose, Golden, type GoldenCall, rowsOf, type Values } from "./golden.ts";
import { type InputValues, ModelRun, openTestDevice } from "./model_run.ts";

/** `collapsed`: one row stands for all pads, as the pipeline does it. `whole`: every pad row is there. */
type ContextKind = "collapsed" | "whole";

/** The prompt's rows, how many are attended, and the logit of the last. */
function contextOf(
  golden: Golden,
  call: GoldenCall,
  kind: ContextKind,
): Record<string, InputValues> {
  const rows = golden.tensor(call.name, "context_rows");
  const [batch, stored, dim] = rows.shape as [number, number, number];
  const length = call.args["context_length"] as number;
  const real = call.args["context_real_rows"] as number[];
  const lengths = real.map((count) => (kind === "whole" ? length : Math.min(length, count + 1)));
  const tokens = Math.max(...lengths);
  const text = new Float32Array(batch * tokens * dim);
  for (let b = 0; b < batch; b++) {
    for (let i = 0; i < stored * dim; i++) {
      text[b * tokens * dim + i] = rows.data[b * stored * dim + i]!;
    }
  }
  const isCollapsed = (count: number) => kind === "collapsed" && count < length;
  const logits = real.map((count) => (isCollapsed(count) ? Math.log(length - count) : 0));
  return {
    text: { shape: [batch, tokens, dim], data: text },
    lengths: { shape: [batch], data: lengths, dtype: "u32" },
    padLogit: { shape: [batch], data: logits },
  };
}

/** Embeddings of the distinct timesteps and, where tokens have their own, the row of each. */
function timestepsOf(
  golden: Golden,
  call: GoldenCall,
  config: WanTransformerConfig,
): Record<string, InputValues> {
  const { shape, data } = golden.tensor(call.name, "timestep");
  const values = Array.from(data);
  const distinct = shape.length === 1 ? values : [...new Set(values)];
  const timestep = {
    shape: [distinct.length, config.freq_dim],
    data: timestepEmbedding(distinct, config.freq_dim),
  };
  if (shape.length === 1) return { timestep };
  const rows = values.map((value) => distinct.indexOf(value));
  return {
    timestep,
    rows: { shape: shape[0] === 1 ? shape.slice(1) : shape, data: rows, dtype: "u32" },
  };
}

interface Opened {
  readonly device: Device;
  readonly config: WanTransformerConfig;
  readonly weights: Weights;
}

function velocityGraph(
  graph: Graph,
  config: WanTransformerConfig,
  weights: Weights,
  given: Readonly<Record<string, Tensor>>,
): Tensor {
  const latents = given["latents"]!;
  const grid = tokenGrid(config, latents.shape);
  const dim = config.num_attention_heads * config.attention_head_dim;
  const distinct = Array.from({ length: given["timestep"]!.dim(0) }, (_, i) => i);
  const indices = modulationIndices(config, distinct);
  const shape = [tableRows(config.num_layers), distinct.length];
  const velocity = wanTransformer(graph, config, weights.root, {
    tokens: patchify(config, latents),
    grid,
    timesteps: timestepRows(weights.root, given["timestep"]!, dim),
    modulationIndices: graph.constant("indices", shape, "u32", indices),
    ...(given["rows"] && { tokenTimesteps: given["rows"] }),
    context: {
      blocks: wanContextStates(graph, config, weights.root, given["text"]!),
      lengths: given["lengths"]!,
      padLogit: given["padLogit"]!,
    },
  });
  return permute(unpatchify(config, velocity, grid), [0, 4, 1, 2, 3]);
}

/** One program from prompt and latents to the velocity. */
function prepare(
  { device, config, weights }: Opened,
  inputs: Readonly<Record<string, InputValues>>,
): Promise<ModelRun> {
  return ModelRun.prepare(device, weights, inputs, (graph, given) => ({
    sample: velocityGraph(graph, config, weights, given),
  }));
}

async function velocityOf(
  opened: Opened,
  inputs: Readonly<Record<string, InputValues>>,
): Promise<Values> {
  using run = await prepare(opened, inputs);
  await run.run();
  return await run.read("sample");
}

async function withModel(golden: Golden, use: (opened: Opened) => Promise<void>): Promise<void> {
  const device = await openTestDevice();
  using checkpoint = golden.checkpoint();
  const weights = new Weights(checkpoint);
  const config = parseConfig(WAN_TRANSFORMER_CONFIG, golden.config(), "config.json");
  try {
    await use({ device, config, weights });
  } finally {
    weights.destroy();
    device.destroy();
  }
}

for (const name of ["transformer-tiny", "transformer-hd32", "transformer-hd128"]) {
  Deno.test(`wanTransformer() gives the velocity of ${name}`, async (t) => {
    const golden = new Golden(`wan/${name}`);
    await withModel(golden, async (opened) => {
      for (const call of golden.calls) {
        const inputs = {
          latents: golden.tensor(call.name, "hidden_states"),
          ...timestepsOf(golden, call, opened.config),
        };
        const expected = golden.tensor(call.name, "sample");
        await t.step(call.name, async () => {
          const context = contextOf(golden, call, "collapsed");
          assertClose(
            `${name} ${call.name}`,
            await velocityOf(opened, { ...inputs, ...context }),
            expected,
            1e-4,
          );
        });
        if (call.name !== "image" && call.name !== "video_batch") continue;
        await t.step(`${call.name}, every pad row attended`, async () => {
          const context = contextOf(golden, call, "whole");
          assertClose(
            `${name} ${call.name} whole`,
            await velocityOf(opened, { ...inputs, ...context }),
            expected,
            1e-4,
          );
        });
      }
      assert.deepEqual(opened.weights.unused, []);
    });
  });
}

Deno.test("wanTransformer() repeats the latents and the tokens' timesteps for every prompt of a batch", async () => {
  const golden = new Golden("wan/transformer-tiny");
  await withModel(golden, async (opened) => {
    const call = golden.call("first_frame");
    const single = contextOf(golden, call, "collapsed");
    const twice = Object.fromEntries(
      Object.entries(single).map(([name, { shape, data, dtype }]) => {
        const values = [...Array.from(data), ...Array.from(data)];
        return [name, { shape: [2, ...shape.slice(1)], data: values, ...(dtype && { dtype }) }];
      }),
    );
    const sample = await velocityOf(opened, {
      latents: golden.tensor(call.name, "hidden_states"),
      ...timestepsOf(golden, call, opened.config),
      ...twice,
    });
    const expected = golden.tensor(call.name, "sample");
    for (const i of [0, 1]) {
      assertClose(`sample ${i}`, rowsOf(sample, i, i + 1), expected, 1e-4);
    }
  });
});

Deno.test("wanTransformer() refuses latents that do not divide into patches or exceed the positions", async () => {
  const golden = new Golden("wan/transformer-tiny");
  await withModel(golden, async (opened) => {
    const call = golden.call("image");
    const traced = (shape: number[]) =>
      prepare(opened, {
        latents: { shape, data: new Float32Array(elementCount(shape)) },
        ...timestepsOf(golden, call, opened.config),
        ...contextOf(golden, call, "collapsed"),
      });
    await assert.rejects(
      traced([1, 16, 1, 7, 10]),
      /Cannot cut latents of 7x10 into patches of 2x2/,
    );
    await assert.rejects(
      traced([1, 16, 33, 2, 2]),
      /Cannot place 33x1x1 tokens: the model knows 32 positions/,
    );
    await assert.rejects(traced([1, 16, 1, 2, 66]), RangeError);
    assert.equal(opened.device.allocatedBytes, 0);
  });
});

Deno.test("a program runs again without creating anything, within the memory that its plan says", async () => {
  const golden = new Golden("wan/transformer-hd32");
  await withModel(golden, async (opened) => {
    const call = golden.call("first_frame");
    const { device, weights } = opened;
    using run = await prepare(opened, {
      latents: golden.tensor(call.name, "hidden_states"),
      ...timestepsOf(golden, call, opened.config),
      ...contextOf(golden, call, "collapsed"),
    });
    assert.ok(weights.byteLength > 600_000);
    assert.equal(run.plan.peakBytes, device.allocatedBytes);
    await run.run();
    const { pipelines, bindGroups, buffers } = device.counters;
    const first = await run.read("sample");
    for (let i = 0; i < 3; i++) {
      await run.run();
      assert.deepEqual(await run.read("sample"), first);
    }
    const after = device.counters;
    assert.deepEqual(
      [after.pipelines, after.bindGroups, after.buffers],
      [pipelines, bindGroups, buffers],
    );
    assert.equal(run.plan.peakBytes, device.allocatedBytes);
  });
});
