// Draws a heart: `node draw.mjs heart.png` or `bun draw.mjs heart.png`, after `npm install denoise webgpu`.
import process from "node:process";
import { loadModel } from "denoise";

const [, , path = "heart.png", numInferenceSteps = "20"] = process.argv;
const model = await loadModel();
const [image] = await model.generate({
  prompt: "a red heart",
  seed: 7,
  numInferenceSteps: Number(numInferenceSteps),
});
await image.save(path);
await model.close();
console.log(`${path}: ${image.width}x${image.height}, seed ${image.recipe.seed}`);
