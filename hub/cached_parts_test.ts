import assert from "node:assert/strict";
import { join } from "node:path";
import { FakeHub } from "../tests/fakes/hub.ts";
import { automaticParts } from "./cached_parts.ts";
import { obtainPart } from "./obtain_model.ts";

Deno.test("automaticParts() takes parts of the cache that fit a model, where its folder has none", async () => {
  const cacheFolder = await Deno.makeTempDir();
  try {
    await using hub = new FakeHub({
      "Comfy-Org/Real-ESRGAN_repackaged": { "RealESRGAN_x4plus.safetensors": "upscaler" },
      "Kijai/WanVideo_comfy": { "taew2_1.safetensors": "tiny decoder" },
    });
    const settings = { endpoint: hub.endpoint, isOffline: false, cacheFolder };
    const folder = join(cacheFolder, "model");
    await Deno.mkdir(folder);
    const wan = { family: "Wan", name: "wan2.1-t2v-1.3b" };
    assert.deepEqual(await automaticParts(folder, wan, cacheFolder), {});
    const upscaler = await obtainPart("realesrgan_x4plus", "upscaler", { settings });
    const tinyDecoder = await obtainPart("taew2_1", "tinyDecoder", { settings });
    const cases = [
      [wan, { upscaler, tinyDecoder }],
      [{ family: "Wan", name: "wan2.2-ti2v-5b" }, { upscaler }],
      [{ family: "SDXL", name: "sdxl-base" }, { upscaler }],
      [undefined, { upscaler }],
    ] as const;
    for (const [model, parts] of cases) {
      assert.deepEqual(await automaticParts(folder, model, cacheFolder), parts);
    }
    await Deno.writeTextFile(join(folder, "upscaler.pth"), "own");
    assert.deepEqual(await automaticParts(folder, wan, cacheFolder), { tinyDecoder });
  } finally {
    await Deno.remove(cacheFolder, { recursive: true });
  }
});
