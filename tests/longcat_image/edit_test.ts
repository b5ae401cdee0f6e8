/** LongCat-Image-Edit against diffusers: same folder, prompt, image and seed. */
import assert from "node:assert/strict";
import { fitOf, sizeFromImage } from "../../generation/size.ts";
import { fit } from "../../media/fit.ts";
import type { Pipeline, PipelineRequest } from "../../models/mod.ts";
import { Golden } from "../support/golden.ts";
import { checkImage } from "../support/golden_image.ts";
import { textRequest } from "../support/golden_request.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";

const golden = new Golden("longcat_image/edit");
const ignore = !Deno.env.has("DENOISE_SLOW");

function requestOf(name: string, { info }: Pipeline): PipelineRequest {
  const request = textRequest(golden.call(name));
  const { shape: [height, width], data } = golden.tensor(name, "given0");
  const image = { width: width!, height: height!, data: Uint8Array.from(data) };
  const images = [fit(image, fitOf(image, request, { ...info, maxPixels: Infinity }))];
  return { ...request, task: "TI2I", images };
}

Deno.test("LongCatImageEditPipeline.generate() takes one image, and brings its size to the model's number of pixels", async () => {
  await withPipeline(async ({ pipeline }) => {
    const { info } = pipeline;
    assert.deepEqual(info.supportedTasks, ["TI2I"]);
    const size = sizeFromImage({ width: 1600, height: 900 }, { ...info, maxPixels: 1024 * 1024 });
    assert.deepEqual([size.width % 16, size.height % 16], [0, 0]);
    assert.ok(Math.abs(size.width / size.height - 16 / 9) < 0.05);
    const request = requestOf("edit", pipeline);
    const cases: readonly (readonly [Partial<PipelineRequest>, RegExp])[] = [
      [{ images: [...request.images!, ...request.images!] }, /it takes one/],
      [{ images: [] }, /Cannot do TI2I with 0 input images: it takes one/],
      [{ task: "T2I", images: [] }, /this model does TI2I/],
    ];
    for (const [change, message] of cases) {
      await assert.rejects(pipeline.generate({ ...request, ...change }), {
        name: "RangeError",
        message,
      });
    }
  }, { folder: golden.folder });
});

Deno.test({
  name:
    "LongCatImageEditPipeline.generate() gives the reference's edits, guided or not, and takes no image for another; with DENOISE_SLOW",
  ignore,
  fn: (t) =>
    withPipeline(async ({ pipeline }) => {
      const plain = requestOf("edit", pipeline);
      await t.step("edit", () => checkImage(golden, "edit", pipeline, plain));
      const request = requestOf("guided", pipeline);
      const check = () => checkImage(golden, "guided", pipeline, request);
      await t.step("guided", check);
      const [image] = request.images!;
      const other = { ...image!, data: image!.data.map((value) => 255 - value) };
      const { latents } = await pipeline.generate({ ...request, images: [other] });
      assert.notEqual(latents[0], golden.tensor("guided", "latents").data[0]);
      await t.step("again", check);
    }, { folder: golden.folder }),
});
