import { strict as assert } from "node:assert";
import { planModel } from "../mod.ts";
import { Golden } from "../tests/support/golden.ts";
import { describe } from "./plan.ts";

Deno.test("planModel() tells what the bundled model takes, and that a budget is too small", async () => {
  const usual = await planModel();
  assert.equal((await planModel("bundled", { numFrames: 10 })).numFrames, 9);
  assert.deepEqual([usual.width, usual.height, usual.numFrames], [96, 96, 1]);
  const { memory } = usual;
  assert.ok(memory.fits && memory.peakBytes > 5e6 && memory.reloadedBytes === 0);
  assert.deepEqual(memory.stages.map(({ name }) => name), ["text", "context", "denoise", "decode"]);
  const larger = await planModel("bundled", { width: 192, height: 192, numFrames: 9 });
  assert.ok(larger.memory.peakBytes > memory.peakBytes);
  assert.deepEqual([larger.width, larger.drawnAt], [192, { width: 96, height: 96 }]);
  const tight = await planModel("bundled", { maxVramBytes: 26e6 });
  assert.ok(tight.memory.fits && tight.memory.peakBytes <= 26e6 && tight.memory.reloadedBytes > 0);
  const none = await planModel("bundled", { maxVramBytes: 1e6 });
  assert.ok(!none.memory.fits && none.memory.peakBytes > 1e6);
  await assert.rejects(planModel("bundled", { width: 97 }), /the width must be a multiple of/);
  const images = new Golden("flux2/pipeline").folder;
  await assert.rejects(planModel(images, { numFrames: 5 }), /this model makes images alone/);
  const diffusion = new Golden("stable_diffusion/pipeline").folder;
  const small = await planModel(diffusion, { width: 32, height: 16 });
  const hires = await planModel(diffusion, { width: 32, height: 16, hiresScale: 2 });
  assert.deepEqual([hires.width, hires.height], [64, 32]);
  assert.ok(hires.memory.peakBytes > small.memory.peakBytes);
  await assert.rejects(
    planModel(new Golden("stable_diffusion/inpainting").folder, { hiresScale: 2 }),
    /Cannot plan a hires fix: this model does not redraw/,
  );
  await assert.rejects(planModel(images, { width: 2 ** 16, height: 2 ** 15 }), {
    name: "RangeError",
    message: /^Cannot make 65536x32768: a .*; ask for a smaller size$/,
  });
});

Deno.test("describe() shows a plan as a table with a verdict, and what to do when it does not fit", () => {
  const stage = {
    name: "denoise",
    components: [
      { name: "text encoder", keptBytes: 0, freedBytes: 2e6, streamedBytes: 0 },
      { name: "transformer", keptBytes: 0, freedBytes: 1e9, streamedBytes: 2.5e9 },
    ],
    activationBytes: 5e6,
    slabBytes: 1e6,
    tensorBytes: 7e6,
    peakBytes: 1.015e9,
  };
  const memory = {
    budgetBytes: 2e9,
    fits: true,
    peakBytes: 1.015e9,
    reloadedBytes: 20e9,
    components: ["text encoder", "transformer"],
    stages: [stage],
  };
  const plan = { adapter: "Test GPU", width: 64, height: 32, numFrames: 1, memory };
  assert.equal(
    describe("model", plan),
    [
      "model at 64x32, 1 frame, on Test GPU",
      "",
      "stage          text encoder                     transformer  activations  tensors  together",
      "denoise  2.0 MB freed after  1.00 GB held, 2.50 GB streamed       6.0 MB   7.0 MB   1.01 GB",
      "At most 1.01 GB at a time, which fits into 2.00 GB",
      "Each request brings 20.00 GB of weights to the device again",
    ].join("\n"),
  );
  const drawn = describe("model", { ...plan, drawnAt: { width: 16, height: 8 } });
  assert.match(drawn, /^model at 64x32 \(drawn at 16x8\), 1 frame/);
  const tight = { ...memory, fits: false, budgetBytes: 1e9 };
  const text = describe("model", { ...plan, numFrames: 9, memory: tight });
  assert.match(text, /64x32, 9 frames/);
  assert.match(text, /does not fit into 1.00 GB\nAllow more memory, take a quantised model/);
});
