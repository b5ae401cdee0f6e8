// Draws a star, makes it red, then only its left half: `deno run -A edit.mjs FOLDER`, also with Node and Bun.
import { join } from "node:path";
import process from "node:process";
import { loadModel } from "denoise";

const [, , folder = ".", numInferenceSteps = "20"] = process.argv;
const model = await loadModel();
const settings = { seed: 7, numInferenceSteps: Number(numInferenceSteps) };
const [star] = await model.generate({ ...settings, prompt: "a yellow star" });
await star.save(join(folder, "star.png"));
const [red] = await model.generate({ ...settings, prompt: "make the star red", images: [star] });
await red.save(join(folder, "red.png"));

// White is drawn again, black stays.
const { width, height } = star;
const data = new Uint8Array(width * height * 3);
for (let i = 0; i < data.length; i++) data[i] = Math.floor(i / 3) % width < width / 2 ? 255 : 0;
const [half] = await model.generate({
  ...settings,
  prompt: "make the star red",
  images: [star],
  mask: { width, height, data },
});
await half.save(join(folder, "half.png"));
await model.close();
console.log("star.png, red.png, half.png");
