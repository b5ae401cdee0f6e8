/** What quantised copies of the bundled model's transformer draw; with DENOISE_SLOW. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadModel, type ModelParts } from "../mod.ts";
import { quantizeCheckpoint, type QuantizedType } from "../models/checkpoints/quantize/mod.ts";
import { withFolder } from "./support/safetensors.ts";

const TRANSFORMER = fileURLToPath(new URL("../models/bundled/transformer", import.meta.url));

/** Least PSNR of an image, in dB; blocks of 256 do not fit into rows of 160, so that `q4_k` is Q5_0. */
const TYPES: readonly (readonly [QuantizedType, least: number])[] = [
  ["q8_0", 45],
  ["q4_k", 32],
  ["f8_e4m3", 32],
];

async function draw(parts: ModelParts): Promise<Uint8Array> {
  await using model = await loadModel("bundled", { parts });
  const [image] = await model.generate({
    ...{ prompt: "a red circle", width: 64, height: 64, numInferenceSteps: 12, seed: 3 },
  });
  return image!.data;
}

Deno.test({
  name: "quantised copies draw what the bundled model draws; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: () =>
    withFolder({}, async (folder) => {
      const expected = await draw({});
      for (const [type, least] of TYPES) {
        const file = join(folder, `t.${type === "f8_e4m3" ? "safetensors" : "gguf"}`);
        await quantizeCheckpoint(TRANSFORMER, file, { type });
        const actual = await draw({ transformer: file });
        const error = actual.reduce((sum, value, i) => sum + (value - expected[i]!) ** 2, 0);
        const psnr = 10 * Math.log10(255 ** 2 / (error / actual.length));
        assert.ok(psnr > least, `${type}: ${psnr.toFixed(1)} dB`);
      }
    }),
});
