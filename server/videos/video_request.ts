/**
 * From a video request, as JSON or as a form, to what has to be done, with every mistake found
 * before any work begins.
 */

import { BusyError } from "../../media/isolated/slots.ts";
import {
  checkVideoWork,
  crfOfQuality,
  DEFAULT_X264_PRESET,
  type Ffmpeg,
  probeVideo,
  VideoError,
  type VideoInfo,
  X264_PRESETS,
  type X264Preset,
} from "../../media/video/mod.ts";
import { asClientError, checkChoice, refusePaths } from "../contract/checks.ts";
import { readDuration } from "../contract/duration.ts";
import { wantedFrames } from "../../generation/duration.ts";
import { type ApiError, badRequest } from "../contract/errors.ts";
import { flattenExtras } from "../contract/fields.ts";
import { inputName, unreadFiles, VIDEO_SPELLINGS } from "../contract/spellings.ts";
import {
  findIgnored,
  type GenerationSettings,
  readFit,
  readGeneration,
  readOutputQuality,
  readSize,
  type RequestContext,
} from "../contract/generation.ts";
import { PATH_FIELDS } from "../contract/generation_fields.ts";
import { readScalars } from "../contract/scalars.ts";
import { checkReferenceCount, referenceFit, visionFit } from "../../generation/fit_image.ts";
import { checkSize, type Size, sizeWithin } from "../../generation/size.ts";
import { acceptsImage, outputOf, resolveTask } from "../../generation/task.ts";
import { followedLength, wholeLength } from "../../generation/video_frames.ts";
import { validate } from "../contract/validate.ts";
import {
  VIDEO_SOURCE_FIELDS,
  type VideoBody,
  videoFieldTable,
  videoSchema,
} from "../contract/video_fields.ts";
import type { InputFolder } from "../inputs/input_folder.ts";
import type { UploadedFile } from "../inputs/multipart.ts";
import { type OpenImage, openImage, storeFitted, storeImage } from "../inputs/images.ts";
import {
  badSource,
  type InputFile,
  oneSource,
  resolveReferences,
  type Source,
  sourcesOf,
  tooBusy,
} from "../inputs/references.ts";

/** How often the events of a video show it unfinished. */
export const VIDEO_PREVIEWS = 3;

/** A video on disk. */
export interface GivenVideo {
  /** Path of the file. */
  path: string;
  /** Facts about the video. */
  info: VideoInfo;
}

/** One checked video request; a JSON value, so that it outlives the server. */
export interface VideoRequest extends GenerationSettings {
  /** The name that the request has for the model, else the served name. */
  model: string;
  /** The served name; records of older versions have none. */
  servedModel?: string;
  /** Pixels per row. */
  width: number;
  /** Number of rows. */
  height: number;
  /** Frames of the video. */
  numFrames: number;
  /** Frames per second of the file. */
  fps: number;
  /** Images to start from, of the size of the result: paths of PNG files. */
  images: string[];
  /** What the model's image encoder sees of these, where it has one: paths of PNG files. */
  visions?: string[];
  /** The video to start from. */
  video?: GivenVideo;
  /** What of the video is made anew: the path of a PNG file, or a video. */
  mask?: string | GivenVideo;
  /** Images of what shall be seen: paths of PNG files. */
  references?: string[];
  /** Whether the given video's sound is kept. */
  keepsAudio: boolean;
  /** Constant rate factor of the file. */
  crf: number;
  /** Effort of the encoder. */
  preset: X264Preset;
  /** Whether the file is written so that it plays meanwhile, and is given meanwhile. */
  isFragmented?: boolean;
  /** Folder of the request's own files; absent without any. */
  inputs?: string;
  /** Fields of the body that had no effect. */
  ignored: string[];
  /** Fields whose values the model cannot make, with those that are made in their place. */
  rounded?: string[];
}

/** What images and videos of a request are read with. */
interface VideoSources {
  /** Takes the files. */
  readonly folder: InputFolder;
  /** Reads videos. */
  readonly ffmpeg: Ffmpeg;
  /** Whether addresses of private networks may be fetched. */
  readonly allowPrivateUrls: boolean;
  /** Stops fetching and reading. */
  readonly signal?: AbortSignal;
}

/**
 * Reads a video request.
 *
 * @param json any parsed JSON value, or the values of a form
 * @throws {ApiError} 422 for wrong types, 400 for wrong values
 */
export async function readVideoRequest(
  json: unknown,
  sent: readonly UploadedFile[],
  context: RequestContext,
  sources: VideoSources,
): Promise<VideoRequest> {
  const { info } = context;
  const uploads = sent.map((file) => ({ ...file, field: inputName(file.field, VIDEO_SPELLINGS) }));
  const { folder, signal } = sources;
  const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
  const body = isObject ? flattenExtras(json as Record<string, unknown>, VIDEO_SPELLINGS) : json;
  if (isObject && isAbsent((body as Record<string, unknown>)["prompt"])) {
    throw badRequest("prompt is required", "prompt", "missing");
  }
  const fields = validate(videoSchema, readScalars(body, videoSchema));
  refusePaths(fields, PATH_FIELDS);
  checkChoice("x264_preset", fields.x264_preset, X264_PRESETS);
  const crf = crfOfQuality(readOutputQuality(fields, "video"));
  const given = findSources(fields, uploads);
  const takesImages = info.animates === true || acceptsImage(
    info.supportedTasks.filter((task) => outputOf(task) === "VIDEO"),
  );
  const files = await resolveReferences(given, { ...sources, takesVideo: true })
    // Whatever is wrong with an image that nobody wants is of no use to its sender.
    .catch((error) => {
      throw takesImages || given[0]!.field !== "input_reference" ? error : noImages(info);
    });
  const fit = readFit(fields.fit);
  const givenImages = files.filter(({ kind }) => kind === "image");
  const givenVideos = files.filter(({ kind }) => kind === "video");
  if (givenImages.length > 0 && !takesImages) throw noImages(info);
  const taskType = asClientError("task_type", () =>
    resolveTask({
      ...(fields.task_type ? { taskType: fields.task_type } : {}),
      output: "VIDEO",
      hasImage: givenImages.length > 0,
      hasVideo: givenVideos.length > 0,
      howToSend: {
        image: "'input_reference' or 'reference_url'",
        video: "'video_reference' or 'video_url'",
      },
    }, info));
  if (givenImages.length > Math.max(1, info.maxImages) || givenVideos.length > 1) {
    throw badRequest(
      `Cannot use ${givenImages.length} images and ${givenVideos.length} videos: this model takes ` +
        `${info.maxImages} images, or one video`,
      files[0]!.field,
    );
  }
  if (givenImages[0]?.field === "last_image") {
    throw badRequest(
      "Cannot end with 'last_image': there is no first frame; send it as 'input_reference'",
      "last_image",
    );
  }
  const { minImages = 1 } = info;
  if (givenImages.length > 0 && givenImages.length < minImages) {
    throw badRequest(
      `Cannot do ${taskType} with ${givenImages.length} input image: this model takes ${minImages}, the first frame and the last; send 'last_image' too`,
      givenImages[0]!.field,
    );
  }
  const n = fields.num_outputs_per_prompt ?? fields.n;
  const { settings: sampling, idle } = readGeneration({ ...fields, n }, taskType, context);
  const settings = {
    ...sampling,
    loras: await context.findLoras(fields.loras),
  };
  const video = givenVideos[0] && await probeInput(givenVideos[0], sources);
  const maskSource = oneSource("mask", fields.mask, uploads);
  const referenceSources = sourcesOf("reference", fields.reference, uploads);
  const takes = {
    mask: info.takesMasks === true && taskType === "V2V",
    reference: (info.maxReferences ?? 0) > 0,
  };
  const unread = unreadFiles(uploads, VIDEO_SPELLINGS);
  const seen = {
    ...fields,
    ...(maskSource && { mask: "given" }),
    ...(referenceSources.length > 0 && { reference: "given" }),
    ...unread.fields,
  };
  const ignored = findIgnored(seen, videoFieldTable, context, {
    ...{ ...idle, ...unread.idle },
    mask: !takes.mask,
    reference: !takes.reference,
    fit: givenImages.length === 0 || info.imageLimits !== undefined,
    enable_audio: taskType === "F2V" || video?.info.audioCodec === undefined,
    ...(info.animates ? { num_frames: true, seconds: true } : {}),
    // It is repeated in the record.
    model: false,
  });
  const named = readSize(fields, info.defaults);
  const opened: OpenImage[] = [];
  for (const image of givenImages) opened.push(await openImage(image, signal));
  const shape = info.animates ? opened[0]?.info ?? video?.info : undefined;
  const size = shape ? sizeWithin(shape, named, info.sizeMultiple) : named;
  const param = fields.width || fields.height ? "width" : "size";
  asClientError(param, () => checkSize(size, info));
  const taskDefaults = { ...info.defaults, ...info.taskDefaults[taskType] };
  // A result that follows a video is as long as that.
  const { fps: rate } = fields;
  const duration = readDuration(info.animates ? { fps: rate } : fields, {
    fps: info.defaults.fps,
    numFrames: video && info.animates
      ? followedLength(video.info, rate ?? info.defaults.fps)
      : video && taskType !== "F2V"
      ? Math.min(video.info.frames, info.maxFrames)
      : taskDefaults.numFrames,
    frameMultiple: info.frameMultiple,
    maxFrames: info.maxFrames,
  });
  const { numFrames, fps } = duration;
  const length = { numFrames: fields.num_frames, seconds: fields.seconds };
  const isRounded = !info.animates && wantedFrames(length, fps, duration) !== numFrames;
  const made = isAbsent(fields.num_frames)
    ? `seconds=${Number((numFrames / fps).toFixed(2))}`
    : `num_frames=${numFrames}`;
  if (video) {
    const decoded = taskType === "F2V" ? wholeLength(video.info, fps) : numFrames;
    checkWork(givenVideos[0]!, video.info, { fps, numFrames: decoded });
  }
  if (takes.reference) {
    asClientError("reference", () => checkReferenceCount(referenceSources.length, info));
  }
  await context.checkRoom(
    {
      ...settings,
      ...size,
      ...{ numFrames, images: givenImages.length, previews: VIDEO_PREVIEWS },
      references: takes.reference ? referenceSources.length : 0,
    },
    param,
  );
  const images: string[] = [];
  const visions: string[] = [];
  const { visionSide } = info;
  for (const image of opened) {
    images.push(await storeImage(image, size, { ...info, fit }, folder, signal));
    if (!visionSide) continue;
    visions.push(await storeFitted(image, visionFit(image.info, visionSide), folder, signal));
  }
  const mask = takes.mask && maskSource
    ? await storeMask(maskSource, { ...size, ...duration }, sources)
    : undefined;
  const references: string[] = [];
  for (const source of takes.reference ? referenceSources : []) {
    const [file] = await resolveReferences([source], { ...sources, takesVideo: false });
    const image = await openImage(file!, signal);
    references.push(await storeFitted(image, referenceFit(image.info), folder, signal));
  }
  return {
    ...settings,
    model: fields.model || context.servedModelName,
    servedModel: context.servedModelName,
    ...size,
    ...duration,
    images,
    ...(visions.length > 0 ? { visions } : {}),
    ...(video ? { video } : {}),
    ...(mask ? { mask } : {}),
    ...(references.length > 0 ? { references } : {}),
    ...(files.length + references.length > 0 || mask ? { inputs: folder.path } : {}),
    // What goes on after a video has no sound yet.
    keepsAudio: fields.enable_audio !== false && taskType !== "F2V",
    crf,
    preset: (fields.x264_preset ?? DEFAULT_X264_PRESET) as X264Preset,
    ...(fields.fragmented ? { isFragmented: true } : {}),
    ...(isRounded ? { rounded: [made] } : {}),
    ignored,
  };
}

/** In the words of the reference. */
function noImages({ supportedTasks }: RequestContext["info"]): ApiError {
  return badRequest(
    `input_reference is not supported for T2V models; this model does ${supportedTasks.join(", ")}`,
    "input_reference",
  );
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || value === "";
}

/** Uploads and addresses, each under the field that it came in. */
function findSources(fields: VideoBody, uploads: readonly UploadedFile[]): Source[] {
  return VIDEO_SOURCE_FIELDS.flatMap((field): Source[] => {
    const value = fields[field];
    const url = typeof value === "object" && value !== null ? value.image_url : value;
    return sourcesOf(field, url, uploads);
  });
}

/** Looks at a mask: an image is kept in the size of the result, a video as it came. */
async function storeMask(
  source: Source,
  shape: Size & { readonly fps: number; readonly numFrames: number },
  sources: VideoSources,
): Promise<string | GivenVideo> {
  const [file] = await resolveReferences([source], { ...sources, takesVideo: true });
  if (file!.kind === "video") {
    const video = await probeInput(file!, sources);
    checkWork(file!, video.info, shape);
    return video;
  }
  const image = await openImage(file!, sources.signal);
  const { width, height } = shape;
  return await storeFitted(image, { cover: { width, height } }, sources.folder, sources.signal);
}

async function probeInput(
  { path, field }: InputFile,
  { ffmpeg, signal }: VideoSources,
): Promise<GivenVideo> {
  try {
    return { path, info: await probeVideo(ffmpeg, path, signal ? { signal } : {}) };
  } catch (error) {
    if (error instanceof VideoError) throw badSource(field, error.message);
    if (error instanceof BusyError) throw tooBusy("video", error);
    throw error;
  }
}

function checkWork(
  { field }: InputFile,
  info: VideoInfo,
  { fps, numFrames }: { fps: number; numFrames: number },
): void {
  try {
    checkVideoWork(info, { fps, maxFrames: numFrames });
  } catch (error) {
    if (error instanceof VideoError) throw badSource(field, error.message);
    throw error;
  }
}
