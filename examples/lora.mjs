// Shows what a LoRA does, at four strengths: `deno run -A lora.mjs FOLDER`, also with Node and Bun.
import { join } from "node:path";
import process from "node:process";
import { loadModel } from "denoise";

const [, , folder = ".", numInferenceSteps = "20"] = process.argv;
const model = await loadModel();
for (const strength of [0, 0.4, 0.8, 1.2]) {
  const [image] = await model.generate({
    prompt: "a red heart",
    seed: 7,
    numInferenceSteps: Number(numInferenceSteps),
    loras: strength > 0 ? [{ path: "outline", strength }] : [],
  });
  const name = `heart-${strength}.png`;
  await image.save(join(folder, name));
  console.log(name);
}
await model.close();
