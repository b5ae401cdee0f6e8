/** OpenAI's own client for JavaScript. */

import { strict as assert } from "node:assert";
import OpenAI, { toFile } from "openai";
import { imagePath, pngSize, url } from "./image.ts";

const client = new OpenAI({ apiKey: "unused", baseURL: `${url}/v1`, maxRetries: 0 });
const [model] = (await client.models.list()).data;
assert.equal(model!.id, "bundled");

for (const name of ["gpt-image-1", "dall-e-2", "bundled"]) {
  const size = "1024x1024";
  const { data } = await client.images.generate({
    ...{ model: name, prompt: "a red circle", n: 2, size, output_format: "png" },
  });
  const [first, second] = data!.map(({ b64_json }) => b64_json!);
  for (const image of [first!, second!]) assert.deepEqual(pngSize(image), [1024, 1024]);
  assert.notEqual(first, second);
  const image = await toFile(await Deno.readFile(imagePath), "in.png", { type: "image/png" });
  const edited = await client.images.edit({
    ...{ model: name, prompt: "make the circle blue", size, quality: "low", output_format: "png" },
    image,
  });
  assert.deepEqual(pngSize(edited.data![0]!.b64_json!), [1024, 1024]);
}

const stream = await client.images.generate({
  ...{ model: "gpt-image-1", prompt: "a red circle", partial_images: 2 },
  stream: true,
});
const types: string[] = [];
for await (const { type } of stream) types.push(type);
assert.deepEqual(types, [
  "image_generation.partial_image",
  "image_generation.partial_image",
  "image_generation.completed",
]);

let video = await client.videos.create({
  ...{ model: "sora-2", prompt: "a red circle moves right" },
  ...{ size: "64x64", extra_body: { num_frames: 5, num_inference_steps: 2 } } as object,
});
while (video.status === "queued" || video.status === "in_progress") {
  await new Promise((resolve) => setTimeout(resolve, 100));
  video = await client.videos.retrieve(video.id);
}
assert.equal(video.status, "completed", JSON.stringify(video));
const content = await client.videos.downloadContent(video.id, { variant: "video" });
const start = new Uint8Array(await content.arrayBuffer()).subarray(4, 8);
assert.equal(String.fromCharCode(...start), "ftyp");
assert.equal((await client.videos.delete(video.id)).deleted, true);
console.log("done");
