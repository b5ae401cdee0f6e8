/** Videos that go on from the end of another one. */
import assert from "node:assert/strict";
import type { PipelineRequest } from "../../models/mod.ts";
import { Golden } from "../support/golden.ts";
import { REQUEST, withPipeline } from "../support/pipeline_fixture.ts";

const size = REQUEST.width * REQUEST.height * 3;
const frames = Array.from(
  { length: 7 },
  (_, k) => Uint8Array.from({ length: size }, (_, i) => (i * (k + 3) + (i >> 5)) % 256),
);
const { width, height } = REQUEST;

for (const name of ["pipeline-ti2v", "pipeline-i2v", "pipeline-i2v-experts", "pipeline-vace"]) {
  const { folder } = new Golden(`wan/${name}`);
  const long: PipelineRequest = { ...REQUEST, task: "F2V", numFrames: 9, numInferenceSteps: 2 };

  Deno.test(`WanPipeline.generate() goes on from one frame as from an image: ${name}`, () =>
    withPipeline(async ({ pipeline }) => {
      const { supportedTasks, visionSide } = pipeline.info;
      assert.ok(supportedTasks.includes("F2V"));
      // An image encoder sees one colour, whatever the side.
      const data = visionSide ? new Uint8Array(size).fill(100) : frames[0]!;
      const vision = visionSide && { vision: new Uint8Array(visionSide ** 2 * 3).fill(100) };
      const images = [{ width, height, data, ...vision }];
      const image = await pipeline.generate({ ...long, task: "I2V", images });
      const clip = await pipeline.generate({ ...long, video: [data] });
      assert.deepEqual(clip.latents, image.latents);
    }, { folder }));

  Deno.test(`WanPipeline.generate() goes on from the last frames of a clip: ${name}`, () =>
    withPipeline(async ({ pipeline }) => {
      const { continuedFrames } = pipeline.info;
      assert.equal(continuedFrames, 5);
      const whole = await pipeline.generate({ ...long, video: frames });
      const end = await pipeline.generate({ ...long, video: frames.slice(-5) });
      assert.deepEqual(whole.latents, end.latents);
      const last = await pipeline.generate({ ...long, video: frames.slice(-1) });
      assert.notDeepEqual(last.latents, end.latents);
    }, { folder }));
}
