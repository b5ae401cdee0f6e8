/** Vercel's AI SDK, with OpenAI's provider and with the one for compatible servers. */

import { strict as assert } from "node:assert";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateImage, type ImageModel } from "ai";
import { imagePath, pngSize, url } from "./image.ts";

const connection = { apiKey: "unused", baseURL: `${url}/v1` };
const openai = createOpenAI(connection);
const compatible = createOpenAICompatible({ name: "denoise", ...connection });
const size = "1024x1024";

const generate = (model: ImageModel, n: number) =>
  generateImage({
    ...{ model, n, size, prompt: "a red circle" },
    providerOptions: { openai: { outputFormat: "png" }, denoise: { output_format: "png" } },
  });
const edit = (model: ImageModel, image: Uint8Array) =>
  generateImage({
    ...{ model, size, prompt: { text: "make the circle blue", images: [image] } },
    providerOptions: { openai: { outputFormat: "png" }, denoise: { output_format: "png" } },
  });

const given = await Deno.readFile(imagePath);
for (const name of ["gpt-image-1", "dall-e-3", "bundled"]) {
  for (const provider of [openai, compatible]) {
    // Some models are asked once for all images, and others once for each.
    const { images } = await generate(provider.imageModel(name), 2);
    assert.equal(images.length, 2);
    for (const { base64 } of images) assert.deepEqual(pngSize(base64), [1024, 1024]);
    assert.notEqual(images[0]!.base64, images[1]!.base64, `${name} gives the same image twice`);
    const edited = await edit(provider.imageModel(name), given);
    assert.deepEqual(pngSize(edited.image.base64), [1024, 1024]);
  }
}
console.log("done");
