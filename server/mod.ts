/**
 * A model served over HTTP.
 *
 * ```ts
 * import { serve } from "denoise/server";
 *
 * const server = await serve({ port: 0, apiKeys: ["secret"] });
 * await server.ready;
 * console.log(server.url);
 * await server.close();
 * ```
 *
 * @module
 */

export type { Steering } from "../hub/steering_parts.ts";
export type { DeviceOptions, ModelParts, OffloadableComponent } from "../engine/options.ts";
export type { Engine, ModelInfo } from "../engine/types.ts";
export type { LoraTargetName, MergeMode } from "../generation/lora_words.ts";
export type { EnhancerTask, PromptEnhancer } from "./prompts/enhancer.ts";
export type { FormLimits } from "./inputs/multipart.ts";
export {
  createLog,
  LineWriter,
  type Log,
  LOG_FORMATS,
  type LogFields,
  type LogFormat,
  type LogLevel,
} from "./log.ts";
export { checkApiKeys } from "./http/access.ts";
export type { StartLora } from "./loras/start_loras.ts";
export { isLoopback } from "./http/access.ts";
export type {
  EngineOpener,
  FoundSource,
  FoundSteering,
  OtherSource,
  RunningServer,
  Start,
  StartOptions,
} from "./start_options.ts";
export { createHandler, type Handler, type HandlerInfo } from "./handler.ts";
export { type ModelSource, serve, type ServeOptions } from "./serve_model.ts";
export { LORA_FLAGS, SERVER_FLAGS, type ServerSettings } from "./settings.ts";
export type { Flag, FlagDetails, FlagValues } from "../generation/flag.ts";
export { readS3Settings, type S3Flags, type S3Settings } from "./storage/s3_settings.ts";
export { readSecret } from "./webhooks/webhooks.ts";
export type { WorkerRecord } from "./workers.ts";
