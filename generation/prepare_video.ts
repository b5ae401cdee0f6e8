/** A request for a video made ready for the engine, as `prepare.ts` does it for images. */

import { resultFrames, resultRate, resultSize } from "../engine/result_size.ts";
import type { ModelInfo } from "../engine/types.ts";
import type { AudioFormat } from "../models/pipeline/types.ts";
import type { AudioInfo, VideoInfo } from "../media/video/mod.ts";
import {
  checkFps,
  checkRate,
  countFrames,
  type GivenDuration,
  isAbsent,
  wantedFrames,
} from "./duration.ts";
import { fitOf, sizeWithin } from "./size.ts";
import type { VideoStream } from "./generated_video.ts";
import {
  type Asked,
  checkImageCount,
  checkRoom,
  chooseSize,
  chooseTask,
  completeRequest,
  countReferences,
  type Idle,
  idleInputs,
  type InputReader,
  type InputTypes,
  type Preparation,
  type Prepared,
  referencesOf,
  visionsOf,
} from "./prepare.ts";
import { nearestShape } from "../models/pipeline/shapes.ts";
import { checked } from "./settings.ts";
import { followedLength, type VideoShape, wholeLength } from "./video_frames.ts";

export interface VideoInputTypes extends InputTypes {
  readonly clipSource: unknown;
  /** A video that was found to be one. */
  readonly clip: { readonly info: VideoInfo };
  /** A sound that was found to be one. */
  readonly sound: GivenSound;
}

/** A file with sound. */
export interface GivenSound {
  /** Absolute. */
  readonly path: string;
  readonly info: AudioInfo;
}

export interface VideoReader<T extends VideoInputTypes> extends InputReader<T> {
  /** Looks at a video; frames in memory have the rate `fps`. */
  openClip(source: T["clipSource"], fps: number): Promise<T["clip"]>;
  /** Looks at a file with sound. */
  openSound(source: T["clipSource"]): Promise<T["sound"]>;
  /** Looks at a mask: an image, or a video. */
  openMask(source: T["clipSource"], fps: number): Promise<{ image: T["open"] } | T["clip"]>;
  /** Refuses a video that takes too long to read. */
  checkClip(source: T["clipSource"], clip: T["clip"], work: VideoWork): void;
}

/** How much of a video is read. */
export interface VideoWork {
  readonly fps: number;
  readonly numFrames: number;
}

export interface AskedVideo<T extends VideoInputTypes>
  extends Omit<Asked<T>, "mask" | "maskWay" | "control">, GivenDuration {
  readonly fps?: number | null | undefined;
  readonly enableAudio?: boolean | null | undefined;
  readonly audioAlone?: boolean | undefined;
  readonly audio?: T["clipSource"] | undefined;
  readonly video?: T["clipSource"] | undefined;
  readonly mask?: T["clipSource"] | undefined;
}

export interface VideoPreparation<T extends VideoInputTypes> extends Preparation<T> {
  readonly reader: VideoReader<T>;
}

/** A request for a video that the engine can take once its inputs are in memory. */
export interface PreparedVideo<Kept, Clip, Sound = GivenSound>
  extends Omit<Prepared<Kept>, "mask" | "control"> {
  numFrames: number;
  /** Frames per second of the result, before frames are put between. */
  fps: number;
  /** Whether the result has sound: that which the model makes, else that of the given video; true by default. */
  enableAudio?: boolean;
  /** Whether the sound that the model makes is all that is wanted. */
  audioAlone?: true;
  /** The sound that the video follows, and has. */
  audio?: Sound;
  /** The video to start from, to steer by, or to go on from. */
  video?: Clip;
  /** Which part of the video is redrawn. */
  mask?: Kept | Clip;
}

/** Says, too, whether the model cannot make the asked length exactly. @throws {FieldError} for what it or this machine cannot do */
export async function prepareVideo<T extends VideoInputTypes>(
  asked: AskedVideo<T>,
  by: VideoPreparation<T>,
): Promise<{
  request: PreparedVideo<T["kept"], T["clip"], T["sound"]>;
  idle: Idle;
  isRounded: boolean;
}> {
  const { info, reader } = by;
  const count = asked.images.length;
  const hasVideo = asked.video !== undefined;
  const taskType = chooseTask(asked, { output: "VIDEO", hasVideo }, by);
  checked("images", () => {
    checkImageCount(count, info.maxImages);
    checkLeastImages(count, taskType, by);
  });
  const references = countReferences(asked, info);
  const { settings, idle } = completeRequest(asked, taskType, by);
  const fps = asked.fps ?? info.defaults.fps;
  checked("fps", () => checkFps(fps));
  const video = hasVideo ? await reader.openClip(asked.video, fps) : undefined;
  const opened: T["open"][] = [];
  for (const image of asked.images) opened.push(await reader.open(image));
  const shape = info.animates ? opened[0] ?? video?.info : undefined;
  const budget = {
    width: asked.width ?? info.defaults.width,
    height: asked.height ?? info.defaults.height,
  };
  const size = chooseSize(
    shape ? sizeWithin(shape, budget, info.sizeMultiple) : asked,
    opened[0] && info.imageSizes ? nearestShape(opened[0], info.imageSizes) : info.defaults,
    info,
  );
  const own = video && info.animates
    ? followedLength(video.info, fps)
    : taskType === "V2V" && video
    ? Math.min(video.info.frames, info.maxFrames)
    : { ...info.defaults, ...info.taskDefaults[taskType] }.numFrames;
  // A result that follows a video is as long as that.
  const length = info.animates ? {} : asked;
  const limits = { ...info, numFrames: own, fps: info.defaults.fps };
  const lengthField = isAbsent(asked.numFrames) && !isAbsent(asked.seconds)
    ? "seconds"
    : "numFrames";
  const numFrames = checked(lengthField, () => countFrames(length, fps, limits));
  const { frameInterpolationExp } = settings;
  checked(frameInterpolationExp === undefined ? "fps" : "frameInterpolationExp", () => {
    checkRate(resultRate(fps, { ...settings, numFrames }));
  });
  if (video) {
    const decoded = taskType === "F2V" ? wholeLength(video.info, fps) : numFrames;
    reader.checkClip(asked.video, video, { fps, numFrames: decoded });
  }
  const enableAudio = asked.enableAudio ?? true;
  const isHeard = asked.audio !== undefined;
  if (isHeard) checked("audio", () => checkTakesAudio(info));
  if (asked.audioAlone) {
    checked("outputFormat", () => checkAudioAlone({ enableAudio, isHeard }, info));
  }
  const audio = isHeard ? await reader.openSound(asked.audio) : undefined;
  const room = {
    ...settings,
    ...size,
    ...{ taskType, numFrames, images: count, references },
    ...(info.givesAudio && { fps, enableAudio }),
  };
  await checkRoom(room, asked, by);
  const images: T["kept"][] = [];
  for (const image of opened) {
    const how = checked("images", () => fitOf(image, size, info, { mode: asked.fit }));
    images.push((await reader.fit(image, how)).image);
  }
  const isMaskTaken = info.takesMasks === true && taskType === "V2V";
  const follows = info.animates ? "the result is as long as the driving video" : undefined;
  return {
    request: {
      ...settings,
      ...size,
      prompt: asked.prompt,
      ...(asked.wildcards && { wildcards: true }),
      taskType,
      numFrames,
      fps,
      enableAudio,
      ...(asked.audioAlone && { audioAlone: true }),
      ...(audio && { audio }),
      images,
      ...await visionsOf(opened, by),
      ...(video && { video }),
      ...(isMaskTaken && asked.mask !== undefined
        ? { mask: await keepMask(asked.mask, { ...size, numFrames, fps }, reader) }
        : {}),
      ...await referencesOf(asked, by),
    },
    idle: idleInputs(idle, asked, info, {
      mask: isMaskTaken ? undefined : "this model redraws videos as a whole",
      fit: count > 0 && !info.imageLimits
        ? undefined
        : "no image is brought to the size of the result",
      numFrames: follows,
      seconds: follows,
    }),
    isRounded: !info.animates && wantedFrames(asked, fps, { numFrames }) !== numFrames,
  };
}

export function videoShape(
  { taskType, numFrames, width, height, fps }: PreparedVideo<unknown, unknown>,
  { continuedFrames = 1, animates }: ModelInfo,
): VideoShape & { readonly fps: number } {
  const isEnd = taskType === "F2V";
  const length = isEnd ? continuedFrames : numFrames;
  return { width, height, fps, numFrames: length, isEnd, isContained: animates === true };
}

/** Size, rate, length and given sound of the result; what goes on after a video has no sound yet. */
export function videoStream(
  request: PreparedVideo<unknown, { readonly path?: string; readonly info: VideoInfo }>,
): VideoStream {
  const { enableAudio, video, audio: given } = request;
  const kept = given
    ? { path: given.path, codec: given.info.codec }
    : video?.path !== undefined && keepsAudio(request)
    ? { path: video.path, codec: video.info.audioCodec! }
    : undefined;
  const audio = enableAudio === false ? undefined : kept;
  const fps = resultRate(request.fps, request);
  return { ...resultSize(request), fps, seconds: resultFrames(request) / fps, audio };
}

/** How much of the sound that a request brings the model hears, and in what form. */
export function soundShape(
  { numFrames, fps }: Pick<PreparedVideo<unknown, unknown>, "numFrames" | "fps">,
  { takesAudio }: ModelInfo,
): AudioFormat & { readonly seconds: number } {
  return { ...takesAudio!, seconds: numFrames / fps };
}

/** What becomes of a sound that is not as long as the video, in words. */
export function soundNote(
  { audio, numFrames, fps }: Pick<PreparedVideo<unknown, unknown>, "audio" | "numFrames" | "fps">,
): string | undefined {
  const made = numFrames / fps;
  const own = audio?.info.seconds ?? made;
  // A part of a frame is nothing to tell of.
  if (Math.abs(own - made) * fps < 1) return undefined;
  const [given, kept] = [own, made].map((seconds) => `${Number(seconds.toFixed(2))} s`);
  return own > made
    ? `the sound lasts ${given}, and the video ${kept}: the rest is cut off`
    : `the sound lasts ${given}, and the video ${kept}: silence follows`;
}

/**
 * Whether the result has the sound of the given video. What goes on after one has none yet, and beside a video that steers it a
 * model makes its own.
 */
export function keepsAudio(
  { video, taskType }: PreparedVideo<unknown, { readonly info: VideoInfo }>,
): boolean {
  return video?.info.audioCodec !== undefined && taskType !== "F2V";
}

function checkTakesAudio({ takesAudio }: ModelInfo): void {
  if (takesAudio) return;
  throw new RangeError("Cannot follow a sound: this model takes none; omit it");
}

function checkAudioAlone(
  { enableAudio, isHeard }: { readonly enableAudio: boolean; readonly isHeard: boolean },
  { givesAudio }: ModelInfo,
): void {
  if (isHeard) {
    throw new RangeError("Cannot write WAV of a sound that is given: ask for a video in MP4");
  }
  if (!givesAudio) {
    throw new RangeError("Cannot write WAV: this model makes no sound; ask for a video in MP4");
  }
  if (!enableAudio) {
    throw new RangeError("Cannot write WAV without sound: switch the sound on, or ask for MP4");
  }
}

function checkLeastImages(
  count: number,
  taskType: string,
  { info: { minImages = 1 }, howToSend }: Pick<Preparation<InputTypes>, "info" | "howToSend">,
): void {
  if (count === 0 || count >= minImages) return;
  const hint = howToSend?.lastImage ? `; send ${howToSend.lastImage} too` : "";
  throw new RangeError(
    `Cannot do ${taskType} with ${count} input image: this model takes ${minImages}, the first frame and the last${hint}`,
  );
}

/** A mask that is an image comes to the size of the result; a video is kept as it is. */
async function keepMask<T extends VideoInputTypes>(
  source: T["clipSource"],
  shape: VideoShape & VideoWork,
  reader: VideoReader<T>,
): Promise<T["kept"] | T["clip"]> {
  const { width, height, fps } = shape;
  const mask = await reader.openMask(source, fps);
  if ("image" in mask) return (await reader.fit(mask.image, { cover: { width, height } })).image;
  reader.checkClip(source, mask, shape);
  return mask;
}
