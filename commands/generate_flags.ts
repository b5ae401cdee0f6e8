/** What the flags of `generate` ask for, before a model is loaded for nothing. */

import {
  formatOfPath,
  type GenerateOptions,
  type GenerateVideoOptions,
  type SamplingOptions,
  type SamplingSettings,
  type TaskType,
} from "../mod.ts";
import { resolveQuality } from "../media/encode.ts";
import {
  checkPrompt,
  checkVideoPath,
  NO_LIMITS,
  openSound,
  openVideo,
  outputOf,
  parseSize,
  readImageSource,
  readPixels,
  readTask,
  resolveSeeds,
  SETTING_FIELDS,
  SETTING_NAMES,
  type SettingField,
} from "../generation/mod.ts";
import { asUsage, UsageError } from "./failure.ts";
import { flagName } from "./field_flags.ts";
import type { GenerateFlags } from "./flags.ts";
import { STANDARD_OUTPUT } from "./output_name.ts";

export type Media = "image" | "video";

/** A mask, as images and as videos have it; images have none where it is a video. */
export interface Masks {
  imageMask?: GenerateOptions["mask"];
  videoMask?: GenerateVideoOptions["mask"];
}

const VIDEO_FLAGS = [
  "video",
  "audio",
  "enableAudio",
  "numFrames",
  "seconds",
  "fps",
  "x264Preset",
  "fragmented",
  "enableFrameInterpolation",
] as const;

/** The first flag that asks for a video. */
function videoFlagOf(flags: GenerateFlags): string | undefined {
  const name = VIDEO_FLAGS.find((name) =>
    // `--no-audio` makes it false.
    name === "enableAudio"
      ? flags.enableAudio === false
      : flags[name] !== undefined && flags[name] !== false
  );
  return name === "enableAudio" ? "--no-audio" : name && flagName(name);
}

/** What the flags want made: the ending of `--output` says it, else the task, else flags that only videos have. */
export function mediaOf(flags: GenerateFlags): Media | undefined {
  return asUsage(() => {
    const task = flags.taskType === undefined ? undefined : readTask(flags.taskType);
    const videoFlag = videoFlagOf(flags);
    const media = flags.output !== undefined
      ? mediaOfPath(flags.output)
      : task !== undefined
      ? mediaOfTask(task)
      : videoFlag === undefined
      ? undefined
      : "video";
    if (task !== undefined && media !== mediaOfTask(task)) {
      const [made, endings] = mediaOfTask(task) === "video"
        ? ["a video", ".mp4"]
        : ["an image", ".png, .jpg or .webp"];
      throw new RangeError(
        `Cannot do ${task} for ${flags.output}: it makes ${made}; name the output with ${endings} at the end`,
      );
    }
    if (media === "image" && videoFlag) {
      throw new RangeError(
        `Cannot use ${videoFlag} for an image: name the output with .mp4 at the end, or omit it`,
      );
    }
    return media;
  });
}

export function mediaOfTask(task: TaskType): Media {
  return outputOf(task) === "VIDEO" ? "video" : "image";
}

/** Refuses what a model does not make at all, before it is asked in words of tasks. */
export function checkMedia(
  media: Media,
  tasks: readonly TaskType[],
  flags: GenerateFlags,
): void {
  const { modelPath, output, taskType } = flags;
  if (tasks.some((task) => mediaOfTask(task) === media)) return;
  const [asked, made, ending] = media === "image"
    ? ["an image", "videos", ".mp4"]
    : ["a video", "images", ".png"];
  const flag = videoFlagOf(flags);
  const isByFlag = media === "video" && output === undefined && flag !== undefined;
  const advice = [
    ...(output === undefined ? [] : [`name the output with ${ending} at the end`]),
    ...(taskType === undefined ? [] : ["omit --task-type"]),
    ...(isByFlag ? [`omit ${flag}`] : []),
  ];
  throw new UsageError(
    `Cannot make ${asked}: ${modelPath} makes ${made}; ${advice.join(", and ") || `ask for these`}`,
  );
}

/** What the flags say of the result, with every input file looked at. */
export async function readOptions(
  flags: GenerateFlags,
): Promise<SamplingOptions & Pick<GenerateOptions, "control" | "referenceMasks"> & Masks> {
  const { prompt } = flags;
  // Not left to the reader of flags, which would find nothing but this wrong with a misspelt --prompt.
  if (prompt === undefined) {
    throw new UsageError(
      "Cannot generate: the prompt is missing; say what to make, before flags that take several files, or name an " +
        "image that says it with --from",
    );
  }
  const options = asUsage(() => {
    checkPrompt("--prompt", prompt);
    const settings = readSettings(flags);
    seedsOf(flags);
    const size = flags.size === undefined ? {} : parseSize(flags.size);
    const { width, height } = flags;
    return {
      prompt,
      ...settings,
      ...size,
      ...present({ width, height }),
      ...(flags.taskType === undefined ? {} : { taskType: readTask(flags.taskType) }),
      ...(flags.lora === undefined ? {} : { loras: flags.lora }),
      ...present({ fit: flags.fit, wildcards: flags.wildcards }),
    };
  });
  const images = await Promise.all((flags.image ?? []).map(readPixels));
  const references = await Promise.all((flags.reference ?? []).map(readImageSource));
  if (flags.video !== undefined) await openVideo(flags.video);
  if (flags.audio !== undefined) await openSound(flags.audio);
  const control = await Promise.all((flags.control ?? []).map(readImageSource));
  const shown = await Promise.all((flags.referenceMask ?? []).map(readImageSource));
  const masks = flags.mask === undefined ? {} : await readMask(flags.mask);
  return {
    ...options,
    ...(images.length > 0 ? { images } : {}),
    ...(references.length > 0 ? { references } : {}),
    ...(control.length > 0 ? { control } : {}),
    ...(shown.length > 0 ? { referenceMasks: shown } : {}),
    ...masks,
  };
}

/** A mask of an image, or one for all frames, or for each. */
async function readMask(path: string): Promise<Masks> {
  try {
    return { imageMask: await readPixels(path), videoMask: [await readImageSource(path)] };
  } catch (error) {
    await openVideo(path).catch(() => {
      throw error;
    });
    return { videoMask: path };
  }
}

function readSettings(flags: GenerateFlags): Partial<SamplingSettings> {
  const settings: Record<string, unknown> = {};
  for (const name of SETTING_NAMES) {
    const value = flags[name];
    if (value === undefined) continue;
    const { check } = SETTING_FIELDS[name] as SettingField<unknown>;
    check(value, flagName(name), NO_LIMITS, flags);
    settings[name] = value;
  }
  return settings;
}

export function videoOptions(flags: GenerateFlags): Partial<GenerateVideoOptions> {
  const { video, audio, numFrames, seconds, fps, enableAudio } = flags;
  return {
    ...present({ video, audio, numFrames, seconds, fps }),
    ...(enableAudio === false ? { enableAudio } : {}),
  };
}

/** One seed for each output; random seeds differ from call to call. */
export function seedsOf({ seed, numOutputs, defaultSeed }: GenerateFlags): number[] {
  return resolveSeeds(seed?.length === 1 ? seed[0] : seed, numOutputs, defaultSeed);
}

/** How well files are kept, 0 to 100. */
export function fileQuality(flags: GenerateFlags, media: Media): number {
  return resolveQuality(flags.outputQuality, flags.outputCompression, media);
}

function mediaOfPath(path: string): Media {
  if (path === STANDARD_OUTPUT) return "image";
  try {
    checkVideoPath(path);
    return "video";
  } catch {
    try {
      formatOfPath(path);
      return "image";
    } catch {
      throw new RangeError(
        `Cannot write ${path}: name it with .png, .jpg, .jpeg, .webp, for a video .mp4, or for its sound .wav at the end`,
      );
    }
  }
}

/** An object without the properties that are undefined. */
export function present<T extends object>(
  values: T,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}
