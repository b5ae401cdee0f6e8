/** Whole Chroma pipelines against diffusers: same folder, prompt, image and seed, from text to pixels. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { ORIGINAL_CHROMA } from "../../models/families/chroma/layouts.ts";
import { type ModelParts, openPipeline, type PipelineRequest } from "../../models/mod.ts";
import { withChroma } from "../support/composed.ts";
import { Golden, type GoldenCall } from "../support/golden.ts";
import { checkImage } from "../support/golden_image.ts";
import { textRequest } from "../support/golden_request.ts";
import { openTestDevice } from "../support/model_run.ts";
import { renamed, tensorsOf, writeSafetensors } from "../support/single_files.ts";

const golden = new Golden("chroma");
const WIDE = new Golden("chroma-hd128");

function requestOf(call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const request = textRequest(call);
  if (!inputs.includes("given")) return request;
  const { width, height } = request;
  const data = Uint8Array.from(golden.tensor(name, "given").data);
  const strength = args["strength"] as number;
  return { ...request, task: "TI2I", images: [{ width, height, data }], strength };
}

Deno.test("ChromaPipeline.generate() gives the images of diffusers, guided and from an image too", (t) =>
  withChroma(async (folder) => {
    const device = await openTestDevice();
    try {
      using pipeline = await openPipeline(folder);
      await pipeline.load(device);
      for (const call of golden.calls) {
        await t.step(call.name, () => checkImage(golden, call.name, pipeline, requestOf(call)));
      }
      await t.step("a mask keeps the rest of an image", async () => {
        const request = requestOf(golden.call("picture"));
        const { width, height, images } = request;
        const mask = new Uint8Array(width * height).fill(255, 0, width * height / 2);
        const { frames } = await pipeline.generate({ ...request, mask: [mask] });
        const last = 3 * width * (height - 1);
        const given = Float32Array.from(images![0]!.data, (value) => value / 255);
        assert.deepEqual(frames[0]!.subarray(last), given.subarray(last));
        assert.notDeepEqual(frames[0]!.subarray(0, 3 * width), given.subarray(0, 3 * width));
      });
    } finally {
      device.destroy();
    }
  }));

/** What diffusers gives with heads of 128, as the published transformer has them. */
async function checkWide(folder: string, parts: ModelParts = {}): Promise<void> {
  const device = await openTestDevice();
  using pipeline = await openPipeline(folder, parts);
  try {
    await pipeline.load(device);
    // A file does not say how noise levels are shifted.
    await checkImage(WIDE, "text", pipeline, { ...textRequest(WIDE.call("text")), flowShift: 3 });
  } finally {
    device.destroy();
  }
}

Deno.test("ChromaPipeline.generate() gives the image of diffusers, heads of 128, from a file with the authors' names too", (t) =>
  withChroma(async (folder) => {
    await t.step("from a folder", () => checkWide(folder));
    await t.step("from a file", async () => {
      const path = join(folder, "chroma-unlocked.safetensors");
      writeSafetensors(path, renamed(tensorsOf(join(folder, "transformer")), ORIGINAL_CHROMA));
      assert.ok(tensorsOf(path).has("double_blocks.0.img_attn.qkv.weight"));
      await checkWide(path, {
        textEncoder: join(folder, "text_encoder"),
        ...{ vae: join(folder, "vae"), tokenizer: folder },
      });
    });
  }, [WIDE]));
