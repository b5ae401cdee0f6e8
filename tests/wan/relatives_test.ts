/** Models of other teams with Wan's transformer, against diffusers. */
import assert from "node:assert/strict";
import { openPipeline } from "../../models/mod.ts";
import { withComposed } from "../support/composed.ts";
import { Golden } from "../support/golden.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";
import { assertCall, requestOf } from "./requests.ts";

/** What all of them have but for their transformer. */
const OTHERS = new Golden("wan/pipeline-i2v");

for (const name of ["skyreels-t2v", "skyreels-i2v"]) {
  Deno.test(`SkyReelsV2Pipeline.generate() gives the frames of diffusers: ${name}`, () => {
    const golden = new Golden(`wan/${name}`);
    return withComposed([golden, OTHERS], (folder) =>
      withPipeline(async ({ pipeline }) => {
        const { width, height, numFrames, fps } = pipeline.info.defaults;
        assert.deepEqual([width, height, numFrames, fps], [960, 544, 97, 24]);
        const sees = golden.calls[0]!.inputs.includes("image");
        assert.equal(pipeline.info.defaultTask, sees ? "I2V" : "T2V");
        for (const call of golden.calls) await assertCall(pipeline, golden, call);
      }, { folder }));
  });
}

Deno.test("SkyReelsV2DiffusionForcingPipeline.generate() gives the frames of diffusers, from text and from a first one", () => {
  const golden = new Golden("wan/skyreels-df");
  return withComposed([golden, OTHERS], (folder) =>
    withPipeline(async ({ pipeline }) => {
      assert.deepEqual(pipeline.info.supportedTasks, ["T2I", "T2V", "I2V", "F2V", "V2V"]);
      for (const call of golden.calls) {
        const fps = call.args["fps"] as number | undefined ?? 24;
        await assertCall(pipeline, golden, call, { fps });
      }
    }, { folder }));
});

Deno.test("ChronoEditPipeline.generate() gives the last frame of diffusers as the edit", () => {
  const golden = new Golden("wan/chronoedit");
  return withComposed([golden, OTHERS], (folder) =>
    withPipeline(async ({ pipeline }) => {
      const { supportedTasks, inpainting, maxFrames } = pipeline.info;
      assert.deepEqual([supportedTasks, inpainting, maxFrames], [["TI2I"], undefined, 1]);
      const edit = { task: "TI2I", numFrames: 1 } as const;
      await assertCall(pipeline, golden, golden.call("edit"), edit);
      const request = requestOf(golden, golden.call("edit"), pipeline.info.visionSide);
      await assert.rejects(
        pipeline.generate(request),
        { message: "Cannot do I2V: this model does TI2I; choose one of them" },
      );
    }, { folder }));
});

const REFUSED = [
  ["skyreels-t2v", { inject_sample_info: true }, /inject_sample_info is true/],
  ["skyreels-t2v", { num_frame_per_block: 5 }, /num_frame_per_block is 5/],
  ["skyreels-t2v", { _class_name: "ChronoEditTransformer3DModel" }, /for a ChronoEditPipeline/],
  ["chronoedit", { in_channels: 16 }, /its transformer has none/],
] as const;

for (const [name, change, message] of REFUSED) {
  Deno.test(`openPipeline() refuses ${name} with ${JSON.stringify(change)}, by name`, () =>
    withComposed([new Golden(`wan/${name}`), OTHERS], async (folder) => {
      const path = `${folder}/transformer/config.json`;
      const config = JSON.parse(await Deno.readTextFile(path));
      await Deno.remove(path);
      await Deno.writeTextFile(path, JSON.stringify({ ...config, ...change }));
      await assert.rejects(openPipeline(folder), { message });
    }));
}
