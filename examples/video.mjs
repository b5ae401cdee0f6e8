// Makes a short video and keeps its last frame as an image: `deno run -A video.mjs FOLDER`, also with Node and Bun.
import { join } from "node:path";
import process from "node:process";
import { loadModel } from "denoise";

const [, , folder = ".", numInferenceSteps = "20"] = process.argv;
const model = await loadModel();
const video = await model.generateVideo({
  prompt: "a red circle grows",
  numFrames: 9,
  seed: 7,
  numInferenceSteps: Number(numInferenceSteps),
  onProgress: ({ stage, fraction }) => console.log(`${stage} ${Math.round(100 * fraction)} %`),
});
await video.save(join(folder, "circle.mp4"));
await video.frame(video.frames.length - 1).save(join(folder, "last.png"));
await model.close();
console.log(`circle.mp4: ${video.frames.length} frames, ${video.fps} per second`);
