/** Transparency of Qwen-Image-2.1's results on their way to files; with DENOISE_SLOW. */
import assert from "node:assert/strict";
import { decodeImage } from "../../media/decode.ts";
import { onWhite } from "../../media/image.ts";
import { loadModel } from "../../mod.ts";
import { Golden } from "../support/golden.ts";
import { meanDifference } from "../support/pixels.ts";

Deno.test({
  name: "Model.generate() keeps alpha in a PNG, and lays it on white in a JPEG; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async () => {
    await using model = await loadModel(new Golden("qwen_image_21/pipeline").folder);
    const [image] = await model.generate({
      ...{ prompt: "a red cat", width: 64, height: 32, numInferenceSteps: 2, seed: 5 },
    });
    assert.equal(image.channels, 4);
    const png = await decodeImage(await image.toPng());
    assert.deepEqual([png.channels, png.data], [4, image.data]);
    const jpeg = await decodeImage(await image.encode("jpeg", 100));
    assert.equal(jpeg.channels, undefined);
    const { width, height } = image;
    assert.ok(meanDifference(jpeg, { width, height, data: onWhite(image.data) }) < 8);
  },
});
