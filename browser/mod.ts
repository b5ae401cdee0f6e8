/**
 * denoise in a browser tab: the same models, files and pixels as under Deno, on the browser's WebGPU.
 *
 * ```ts
 * import { loadModel } from "denoise/browser";
 *
 * const model = await loadModel();
 * const [image] = await model.generate({ prompt: "a red heart", seed: 7 });
 * document.querySelector("img").src = URL.createObjectURL(await image.toBlob());
 * await model.close();
 * ```
 *
 * @module
 */
import { Model } from "../library/model.ts";
import { BUNDLED_MODEL } from "../models/lora/bundled.ts";
import { type BrowserOptions, loadEngine, type ModelSource } from "./load.ts";

export { GeneratedImage } from "../generation/generated_image.ts";
export { GeneratedVideo } from "../generation/generated_video.ts";
export { FieldError } from "../generation/settings.ts";
export { LoraError } from "../models/lora/lora_error.ts";
export { Model } from "../library/model.ts";
export {
  type BrowserOptions,
  type Estimate,
  estimate,
  type FileParts,
  type FileRef,
  type ModelFiles,
  type ModelSource,
  planModel,
  type PlanOptions,
} from "./load.ts";
export { videoFrames, type VideoFramesOptions } from "./video_frames.ts";
export type { CacheMode, RemoteFile } from "./store.ts";
export type * from "../mod.ts";

/**
 * Loads a model in this tab.
 *
 * @param source which model; the bundled one by default
 * @param options how files are kept, and the device
 * @returns the model, ready to generate
 * @throws {Error} when a file cannot be had or is damaged, or the browser has no WebGPU
 */
export async function loadModel(
  source: ModelSource = BUNDLED_MODEL,
  options: BrowserOptions = {},
): Promise<Model> {
  const { engine, name } = await loadEngine(source, options);
  return new Model(engine, name);
}
