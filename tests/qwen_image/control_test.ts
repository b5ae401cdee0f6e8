/** Qwen-Image with ControlNets against diffusers. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { openPipeline } from "../../models/mod.ts";
import { withComposed } from "../support/composed.ts";
import { checkControlled, controlRequest } from "../support/controlled.ts";
import { Golden } from "../support/golden.ts";

const UNION = new Golden("controlnets/qwen_image");
const INPAINTING = new Golden("controlnets/qwen_image_inpaint");
const MODEL = new Golden("qwen_image/pipeline");

Deno.test("QwenImagePipeline.generate() is steered by a ControlNet as in diffusers, guided and for a part of the steps too", (t) =>
  checkControlled(t, [UNION, MODEL]));

Deno.test("QwenImagePipeline.generate() is steered by a ControlNet that sees two pictures as in diffusers, and by the sum of two", (t) =>
  checkControlled(t, [new Golden("controlnets/qwen_image_several"), UNION, MODEL]));

Deno.test("QwenImagePipeline.generate() paints what a mask says as a ControlNet for inpainting sees it, as in diffusers", (t) =>
  checkControlled(t, [INPAINTING, MODEL]));

Deno.test("QwenImagePipeline.generate() refuses control pictures of a ControlNet for inpainting, and weights without a mask", () =>
  withComposed([INPAINTING, MODEL], async (folder) => {
    using pipeline = await openPipeline(folder);
    assert.ok(pipeline.info.controlsByMask);
    assert.equal(pipeline.info.inpainting?.strength, 1);
    const { images, mask: _, strength: __, ...others } = controlRequest(
      INPAINTING,
      INPAINTING.call("plain"),
    );
    const plain = { ...others, task: "T2I" as const };
    await assert.rejects(
      pipeline.generate({ ...plain, control: [images![0]!] }),
      /the ControlNet sees an image and its mask; give those/,
    );
    await assert.rejects(
      pipeline.generate(plain),
      /Cannot use controlScale: the request has no mask, which this ControlNet sees/,
    );
  }));

Deno.test("openPipeline() refuses a ControlNet of Qwen-Image for inpainting beside another", () =>
  withComposed([UNION, MODEL], (folder) =>
    assert.rejects(
      openPipeline(folder, { controlnet2: join(INPAINTING.folder, "controlnet") }),
      /Cannot use a ControlNet for inpainting beside others: it sees an image and its mask/,
    )));

Deno.test("openPipeline() refuses ControlNets of Qwen-Image that see more than a mask, and edits with one", () =>
  withComposed([UNION, MODEL], async (folder) => {
    const controlnet = join(folder, "controlnet");
    const write = (name: string, more: Record<string, unknown>) => {
      const path = join(folder, name);
      const before = JSON.parse(Deno.readTextFileSync(path));
      Deno.writeTextFileSync(path, JSON.stringify({ ...before, ...more }));
    };
    write("model_index.json", { _class_name: "QwenImageEditPipeline" });
    await assert.rejects(
      openPipeline(folder, { controlnet }),
      /Cannot use a ControlNet with Qwen-Image-Edit or -Layered/,
    );
    write("controlnet/config.json", { extra_condition_channels: 8 });
    await assert.rejects(
      openPipeline(folder, { controlnet }),
      /what ControlNets see beside the picture is at most a mask, 4 channels of a patch/,
    );
  }));
