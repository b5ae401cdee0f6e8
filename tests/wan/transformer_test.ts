/** The Wan transformer against the reference. */
import { strict as assert } from "node:assert";
import { parseConfig } from "../../models/config.ts";
import {
  WAN_TRANSFORMER_CONFIG,
  type WanTransformerConfig,
} from "../../models/families/wan/config.ts";
import { type Device, elementCount, Weights } from "../../runtime/mod.ts";
import { assertClose, Golden, rowsOf, type Values } from "../support/golden.ts";
import { type InputValues, ModelRun, openTestDevice } from "../support/model_run.ts";
import { contextOf, timestepsOf, velocityGraph } from "./velocity.ts";

interface Opened {
  readonly device: Device;
  readonly config: WanTransformerConfig;
  readonly weights: Weights;
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

for (const name of ["transformer-i2v-tiny", "transformer-flf2v-tiny", "transformer-vace-tiny"]) {
  Deno.test(`wanTransformer() gives the velocity of ${name}`, async () => {
    const golden = new Golden(`wan/${name}`);
    await withModel(golden, async (opened) => {
      const call = golden.call("video");
      const others = call.inputs.filter((input) => /^(image_states|control)/.test(input));
      assert.ok(others.length > 0);
      const sample = await velocityOf(opened, {
        latents: golden.tensor(call.name, "hidden_states"),
        ...timestepsOf(golden, call, opened.config),
        ...contextOf(golden, call, "collapsed"),
        ...Object.fromEntries(others.map((name) => [name, golden.tensor(call.name, name)])),
      });
      assertClose(name, sample, golden.tensor(call.name, "sample"), 1e-4);
      assert.deepEqual(opened.weights.unused, []);
    });
  });
}

Deno.test("wanTransformer() adds what tiles attend to where a model has gates for it", async () => {
  const golden = new Golden("wan/transformer-tiles-tiny");
  await withModel(golden, async (opened) => {
    const call = golden.call("video");
    const sample = await velocityOf(opened, {
      latents: golden.tensor(call.name, "hidden_states"),
      ...timestepsOf(golden, call, opened.config),
      ...contextOf(golden, call, "collapsed"),
    });
    assertClose("tiles", sample, golden.tensor(call.name, "sample"), 1e-4);
    assert.deepEqual(opened.weights.unused, []);
  });
});

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
