/**
 * The HTTP service: the app, and the app on a port.
 *
 * @module
 */

export { type AppOptions, createApp } from "./app.ts";
export { takesStrength } from "./contract/generation.ts";
export { checkFps, countFrames } from "./contract/duration.ts";
export {
  checkGuidance,
  checkPrompt,
  checkSteps,
  checkStrength,
  resolveSeeds,
} from "./contract/sampling.ts";
export { checkSize, parseSize, type Size } from "./contract/size.ts";
export { outputOf, readTask, resolveTask } from "./contract/task.ts";
export { EngineState, type EngineStatus } from "./engine_state.ts";
export { type EnhancerTask, type PromptEnhancer, readEnhancer } from "./enhancer.ts";
export { formatOfPath, GeneratedImage } from "./images/generated_image.ts";
export { type Recipe, type RecipeLora, recipeText } from "./images/recipe.ts";
export { fitPicture, sizeFromPicture } from "./inputs/fit_picture.ts";
export {
  type ClipSource,
  openClip,
  type PictureSource,
  readPictureSource,
  readPictureSources,
} from "./inputs/local_inputs.ts";
export type { FormLimits } from "./inputs/multipart.ts";
export { JobQueue, type JobQueueOptions } from "./jobs/job_queue.ts";
export type { JobStore } from "./jobs/job_store.ts";
export { openJobStore } from "./jobs/open_store.ts";
export { DEFAULT_PORT } from "./listen.ts";
export { isLoopback } from "./origin.ts";
export {
  createLog,
  type Log,
  LOG_FORMATS,
  type LogFields,
  type LogFormat,
  type LogLevel,
} from "./log.ts";
export { type EngineOpener, type RunningServer, type StartOptions, startServer } from "./serve.ts";
export { defaultLoraFolders } from "./loras/default_folders.ts";
export type { StartLora } from "./loras/start_loras.ts";
export {
  LORA_TARGETS,
  type LoraTargetName,
  MERGE_MODES,
  type MergeMode,
} from "./contract/lora_words.ts";
export { DEFAULT_MAX_QUEUE, DEFAULT_SETTINGS, type ServerSettings } from "./settings.ts";
export { LocalStorage } from "./storage/local.ts";
export { readS3Settings, type S3Flags, type S3Settings } from "./storage/s3_settings.ts";
export { describeWriteError } from "./storage/write_error.ts";
export {
  checkVideoPath,
  GeneratedVideo,
  type GeneratedVideoParts,
  type SaveVideoOptions,
} from "./videos/generated_video.ts";
export { version } from "./version.ts";
