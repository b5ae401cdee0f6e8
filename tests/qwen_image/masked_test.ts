/** Images of which a mask keeps a part, against diffusers: same folder, prompt, image, mask and seed. */
import { cpSync } from "node:fs";
import { openPipeline, type PipelineRequest } from "../../models/mod.ts";
import { Golden } from "../support/golden.ts";
import { checkImage } from "../support/golden_image.ts";
import { textRequest } from "../support/golden_request.ts";
import { openTestDevice } from "../support/model_run.ts";
import { withFolder } from "../support/safetensors.ts";

const golden = new Golden("qwen_image/masked");
const model = new Golden("qwen_image/pipeline");

/** Pipeline classes by the call that they make. */
const CLASSES = { image: "QwenImageInpaintPipeline", edit: "QwenImageEditInpaintPipeline" };

for (const [name, className] of Object.entries(CLASSES)) {
  Deno.test(`${className} gives the reference's image where a mask says so, and the given one elsewhere`, () =>
    withFolder({}, async (folder) => {
      cpSync(model.folder, folder, { recursive: true });
      const index = JSON.parse(Deno.readTextFileSync(`${folder}/model_index.json`));
      const changed = { ...index, _class_name: className, vae_image_size: 64 * 32 };
      Deno.writeTextFileSync(`${folder}/model_index.json`, JSON.stringify(changed));
      const call = golden.call(name);
      const { args, inputs } = call;
      const { width, height, ...others } = textRequest(call);
      const data = Uint8Array.from(
        golden.tensor(name, inputs.find((each) => each !== "mask")!).data,
      );
      const request: PipelineRequest = {
        ...{ ...others, width, height, task: "TI2I", images: [{ width, height, data }] },
        mask: [Uint8Array.from(golden.tensor(name, "mask").data)],
        strength: args["strength"] as number,
        guidanceScale: args["true_cfg_scale"] as number,
      };
      const device = await openTestDevice();
      try {
        using pipeline = await openPipeline(folder);
        await pipeline.load(device);
        await checkImage(golden, name, pipeline, request);
      } finally {
        device.destroy();
      }
    }));
}
