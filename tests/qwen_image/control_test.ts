/** Qwen-Image with ControlNets against diffusers. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { openPipeline } from "../../models/mod.ts";
import { withComposed } from "../composed.ts";
import { checkControlled } from "../controlled.ts";
import { Golden } from "../golden.ts";

const UNION = new Golden("controlnets/qwen_image");
const MODEL = new Golden("qwen_image/pipeline");

Deno.test("QwenImagePipeline.generate() is steered by a ControlNet as in diffusers, guided and for a part of the steps too", (t) =>
  checkControlled(t, [UNION, MODEL]));

Deno.test("openPipeline() refuses ControlNets of Qwen-Image that see a mask, and edits with one", () =>
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
    write("controlnet/config.json", { extra_condition_channels: 4 });
    await assert.rejects(
      openPipeline(folder, { controlnet }),
      /masks beside the picture, as ControlNets for inpainting see them, are not supported/,
    );
  }));
