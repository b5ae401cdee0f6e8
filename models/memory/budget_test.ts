/** What a device's budget changes: where weights are and how often they are read, never an image. */
import assert from "node:assert/strict";
import { type Device, OutOfMemoryError } from "../../runtime/mod.ts";
import { FOLDER, REQUEST, withPipeline } from "../../tests/support/pipeline_fixture.ts";
import { openModelFiles } from "../checkpoints/open_model.ts";
import { WAN } from "../families/wan/pipeline.ts";
import { openFamily } from "../pipeline/diffusion_pipeline.ts";
import type { PipelineRequest } from "../pipeline/types.ts";
import type { ResidencyPlan } from "./residency.ts";
import { bytesOf } from "./streaming.ts";

/** One pass per step, so that there is one way only to make it. */
const IMAGE: PipelineRequest = { ...REQUEST, guidanceScale: 1, numFrames: 1 };

/** The session that the pipeline makes for the image, planned for several budgets. */
async function withPlans<T>(
  device: Device,
  use: (plan: (budgetBytes: number, offloaded?: string) => ResidencyPlan) => T,
): Promise<T> {
  using pipeline = await openFamily(WAN, await openModelFiles(FOLDER));
  const { runner } = pipeline.trace(device.target, IMAGE);
  return use((budgetBytes, name) =>
    runner.plan({ budgetBytes, ...(name && { offloaded: new Set([name]) }) })
  );
}

/** What a budget leads to: a residency in words. */
function kindOf({ isTogether, kept, stages }: ResidencyPlan): string {
  if (isTogether) return "together";
  if (stages.some(({ streamed }) => streamed.size > 0)) return "streamed";
  return kept.size > 0 ? "partly kept" : "freed";
}

Deno.test("WanPipeline.generate() gives the same bits within every budget, takes what was planned, or refuses with a table", async () => {
  const expected = { latents: new Float32Array(), frame: new Float32Array(), peakBytes: 0 };
  let least = 0;
  await withPipeline(async ({ device, pipeline }) => {
    device.resetPeak();
    const { latents, frames } = await pipeline.generate(IMAGE);
    Object.assign(expected, { latents, frame: frames[0], peakBytes: device.peakBytes });
    least = await withPlans(device, (plan) => plan(0).peakBytes);
  });
  const seen = new Set<string>();
  let seed = 20261122;
  const random = () => (seed = Math.imul(seed, 1664525) + 1013904223 >>> 0) / 2 ** 32;
  const budgets = Array.from({ length: 6 }, () => Math.floor(random() * expected.peakBytes * 1.1));
  const edges = [Math.floor(least / 2), least, least + 20_000, expected.peakBytes];
  for (const maxBytes of [...budgets, ...edges]) {
    const run = () =>
      withPipeline(async ({ device, pipeline }) => {
        const planned = await withPlans(device, (plan) => plan(maxBytes));
        assert.ok(device.allocatedBytes <= maxBytes);
        device.resetPeak();
        for (let round = 0; round < 2; round++) {
          const { latents, frames } = await pipeline.generate(IMAGE);
          assert.deepEqual(latents, expected.latents, `${maxBytes} bytes, round ${round}`);
          assert.deepEqual(frames[0], expected.frame);
          if (kindOf(planned) !== "together") assert.equal(device.peakBytes, planned.peakBytes);
          assert.ok(device.peakBytes <= maxBytes, `${device.peakBytes} of ${maxBytes} bytes`);
        }
        seen.add(kindOf(planned));
      }, { maxBytes });
    try {
      await run();
    } catch (error) {
      if (!(error instanceof OutOfMemoryError)) throw error;
      assert.match(error.message, /^Cannot (load|make) .*; allow more memory, or .*\nstage .*\n/);
      assert.ok(maxBytes < least, `${maxBytes} of ${least} bytes`);
      seen.add("refused");
    }
  }
  assert.deepEqual([...seen].toSorted(), ["partly kept", "refused", "streamed", "together"]);
});

Deno.test("planResidency() takes no more than the budget where something fits, and brings less again the more there is", () =>
  withPipeline(async ({ device }) => {
    await withPlans(device, (plan) => {
      const least = plan(0).peakBytes;
      const most = plan(Infinity).peakBytes;
      let reloaded = Infinity;
      for (let budget = least; budget <= most; budget += (most - least) / 40) {
        const { peakBytes, reloadedBytes } = plan(budget);
        assert.ok(peakBytes <= budget, `${peakBytes} of ${budget} bytes`);
        // Which weights are streamed is a choice among whole ones: a little more room may not help.
        assert.ok(reloadedBytes <= reloaded * 1.2, `${reloadedBytes} after ${reloaded} bytes`);
        reloaded = Math.min(reloaded, reloadedBytes);
      }
      assert.deepEqual([kindOf(plan(most)), reloaded], ["together", 0]);
    });
  }));

Deno.test("WanPipeline.load() frees offloaded components after their stage, whatever the budget", () =>
  withPipeline(async ({ device, pipeline }) => {
    const whole = device.allocatedBytes;
    const { latents } = await pipeline.generate(IMAGE);
    pipeline[Symbol.dispose]();
    await withPipeline(async (other) => {
      const encoderBytes = whole - other.device.allocatedBytes;
      assert.ok(encoderBytes > 0);
      const planned = await withPlans(device, (plan) => plan(Infinity, "text encoder"));
      assert.ok(planned.stages.slice(1).every(({ weights }) => weights.size > 0));
      assert.equal(bytesOf(planned.kept), other.device.allocatedBytes);
      for (let round = 0; round < 2; round++) {
        assert.deepEqual((await other.pipeline.generate(IMAGE)).latents, latents);
      }
    }, { memory: { offloaded: new Set(["text encoder"]) } });
  }));

Deno.test("WanPipeline.generate() says that a file was cut short while weights are streamed, unless they are pinned", async () => {
  const folder = await Deno.makeTempDir();
  try {
    for (const part of ["transformer", "vae", "text_encoder", "tokenizer", "scheduler"]) {
      await Deno.mkdir(`${folder}/${part}`);
      for await (const { name } of Deno.readDir(`${FOLDER}/${part}`)) {
        await Deno.copyFile(`${FOLDER}/${part}/${name}`, `${folder}/${part}/${name}`);
      }
    }
    await Deno.copyFile(`${FOLDER}/model_index.json`, `${folder}/model_index.json`);
    const file = `${folder}/transformer/diffusion_pytorch_model.safetensors`;
    const stored = await Deno.readFile(file);
    const maxBytes = await (async () => {
      let bytes = 0;
      await withPipeline(async ({ device }) => {
        bytes = await withPlans(device, (plan) => Math.floor(plan(0).peakBytes * 1.1));
      });
      return bytes;
    })();
    for (const isPinned of [false, true]) {
      await Deno.writeFile(file, stored);
      await withPipeline(async ({ device, pipeline }) => {
        const { latents } = await pipeline.generate(IMAGE);
        await Deno.truncate(file, stored.length / 2);
        const again = pipeline.generate({ ...IMAGE, seed: 5 });
        if (isPinned) await again;
        else {
          await assert.rejects(again, {
            name: "SyntaxError",
            message: /Cannot read .*transformer/,
          });
        }
        assert.ok(device.allocatedBytes <= maxBytes);
        await Deno.writeFile(file, stored);
        assert.deepEqual((await pipeline.generate(IMAGE)).latents, latents);
      }, { folder, maxBytes, memory: { isPinned } });
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("WanPipeline.generate() stops while it brings weights to the device when cancelled, and works again later", async () => {
  let maxBytes = 0;
  let expected = new Float32Array();
  await withPipeline(async ({ device, pipeline }) => {
    maxBytes = await withPlans(device, (plan) => plan(0).peakBytes);
    expected = (await pipeline.generate(IMAGE)).latents as Float32Array<ArrayBuffer>;
  });
  await withPipeline(async ({ device, pipeline }) => {
    for (const most of [1, 5, 20, 60]) {
      let asked = 0;
      const control = { isCancelled: () => ++asked > most };
      await assert.rejects(pipeline.generate(IMAGE, control), { name: "AbortError" });
      assert.ok(device.allocatedBytes <= maxBytes);
    }
    assert.deepEqual((await pipeline.generate(IMAGE)).latents, expected);
    assert.ok(device.peakBytes <= maxBytes);
  }, { maxBytes });
});
