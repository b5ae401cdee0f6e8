/** Qwen-Image-Edit's pipelines against diffusers: same folder, prompt, images and seed. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { fitOf, sizeFromImage } from "../../generation/size.ts";
import { fit } from "../../media/fit.ts";
import { openPipeline, type Pipeline, type PipelineRequest } from "../../models/mod.ts";
import { Golden, type GoldenCall } from "../support/golden.ts";
import { checkImage } from "../support/golden_image.ts";
import { textRequest } from "../support/golden_request.ts";
import { withFolder } from "../support/safetensors.ts";
import { openTestDevice } from "../support/model_run.ts";

const golden = new Golden("qwen_image/pipeline");

/** Calls `use` with the golden's components as a pipeline of this class, which sees smaller copies of images. */
async function withClass(
  className: string,
  use: (pipeline: Pipeline) => Promise<void>,
): Promise<void> {
  await withFolder({}, async (folder) => {
    cpSync(golden.folder, folder, { recursive: true });
    const index = JSON.parse(Deno.readTextFileSync(`${folder}/model_index.json`));
    const sizes = { vae_image_size: 96 * 96, condition_image_size: 160 * 160 };
    const changed = { ...index, _class_name: className, ...sizes };
    Deno.writeTextFileSync(`${folder}/model_index.json`, JSON.stringify(changed));
    const device = await openTestDevice();
    try {
      using pipeline = await openPipeline(folder);
      await pipeline.load(device);
      await use(pipeline);
    } finally {
      device.destroy();
    }
  });
}

function requestOf(call: GoldenCall, { info }: Pipeline): PipelineRequest {
  const request = textRequest(call);
  const rules = { ...info, maxPixels: Infinity };
  const images = call.inputs.map((name) => {
    const { shape: [height, width], data } = golden.tensor(call.name, name);
    const image = { width: width!, height: height!, data: Uint8Array.from(data) };
    return fit(image, fitOf(image, request, rules));
  });
  const guidanceScale = call.args["true_cfg_scale"] as number;
  return { ...request, task: "TI2I", images, guidanceScale };
}

async function checkCall(pipeline: Pipeline, call: GoldenCall): Promise<void> {
  await checkImage(golden, call.name, pipeline, requestOf(call, pipeline));
}

Deno.test(
  "QwenImageEditPlusPipeline.generate() gives the reference's edit of two images, guided; with DENOISE_SLOW",
  { ignore: !Deno.env.has("DENOISE_SLOW") },
  () =>
    withClass("QwenImageEditPlusPipeline", async (pipeline) => {
      const call = golden.call("plus");
      await checkCall(pipeline, call);
      assert.deepEqual(pipeline.info.supportedTasks, ["TI2I"]);
      // What was made of other images is not taken for theirs.
      const request = { ...requestOf(call, pipeline), numInferenceSteps: 2 };
      const { latents } = await pipeline.generate({
        ...request,
        images: request.images!.toReversed(),
      });
      assert.notEqual(latents[0], golden.tensor("plus", "latents").data[0]);
      await checkCall(pipeline, call);
    }),
);

Deno.test("QwenImageEditPipeline.generate() gives the reference's edit, and takes one image", () =>
  withClass("QwenImageEditPipeline", async (pipeline) => {
    const call = golden.call("edit");
    await checkCall(pipeline, call);
    const request = requestOf(call, pipeline);
    await assert.rejects(
      pipeline.generate({ ...request, images: [...request.images!, ...request.images!] }),
      { name: "RangeError", message: /Cannot do TI2I with 2 input images: it takes one/ },
    );
    const rules = { ...pipeline.info, maxPixels: Infinity };
    assert.deepEqual(
      sizeFromImage({ width: 1600, height: 900 }, rules),
      { width: 672, height: 384 },
    );
  }));
