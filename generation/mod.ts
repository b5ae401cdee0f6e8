/** What a generation is: the fields of a request, their rules, inputs, recipes and results. */

export {
  checkPrompt,
  type Field,
  httpNames,
  type OneOrMore,
  resolveSeeds,
  type SettingField,
  snakeCase,
} from "./field_values.ts";
export { type FitMode, FITS, REQUEST_FIELDS, SETTING_FIELDS, SETTING_NAMES } from "./fields.ts";
export { checkSize, maskedRules, parseSize, type Size, sizeWithin, withVisions } from "./size.ts";
export { formatOfPath, GeneratedImage } from "./generated_image.ts";
export {
  checkVideoPath,
  GeneratedVideo,
  type GeneratedVideoParts,
  isSoundPath,
  saveFrames,
  saveSound,
  type SaveVideoOptions,
  type VideoBlobOptions,
  type VideoStream,
} from "./generated_video.ts";
export type { DeviceOptions, LoadModelOptions } from "../engine/options.ts";
export {
  type ImageFileInfo,
  type ImageSource,
  inspectImageFile,
  type LocalInputs,
  localReader,
  openSound,
  openVideo,
  readImageSource,
  readPixels,
  type VideoSource,
} from "./local_inputs.ts";
export { LORA_TARGETS, type LoraTargetName, MERGE_MODES, type MergeMode } from "./lora_words.ts";
export { engineRequest, type Idle, type Preparation, prepareImages } from "./prepare.ts";
export { prepareVideo, soundNote, soundShape, videoShape, videoStream } from "./prepare_video.ts";
export { type FileRecipe, recipeFields } from "./read_recipe.ts";
export { type Recipe, type RecipeLora, recipeOf } from "./recipe.ts";
export { loraFields, recipeText } from "./recipe.ts";
export { spellSettings } from "./settings.ts";
export { completeSettings, FieldError, NO_LIMITS, settingsOf } from "./settings.ts";
export { outputOf, readTask, resolveTask } from "./task.ts";
export { version } from "./version.ts";
export { describeWriteError } from "./write_error.ts";
