/** From a video request, as JSON or as a form, to what has to be done, with every mistake found before any work begins. */

import {
  type GivenSound,
  keepsAudio,
  type PreparedVideo,
  prepareVideo,
  soundNote,
  type VideoInputTypes,
  type VideoReader,
} from "../../generation/prepare_video.ts";
import type { Size } from "../../generation/size.ts";
import { acceptsImage, outputOf } from "../../generation/task.ts";
import {
  crfOfQuality,
  DEFAULT_X264_PRESET,
  type VideoInfo,
  X264_PRESETS,
  type X264Preset,
} from "../../media/video/mod.ts";
import { checkChoice, readScalars, refusePaths, validate } from "../contract/validate.ts";
import { type ApiError, badRequest } from "../contract/errors.ts";
import { flattenExtras, inputName, unreadFiles, VIDEO_SPELLINGS } from "../contract/fields.ts";
import {
  findIgnored,
  prepared,
  readGeneration,
  readOutputQuality,
  type RequestContext,
  type RequestOptions,
} from "../contract/generation.ts";
import {
  PATH_FIELDS,
  VIDEO_SOURCE_FIELDS,
  type VideoBody,
  videoFieldTable,
  videoSchema,
} from "../contract/generation_fields.ts";
import type { WithGiven } from "../inputs/kept_inputs.ts";
import { AUDIO_FIELD, oneSource, type Source, sourcesOf } from "../inputs/sources.ts";

/** How often the events of a video show it unfinished. */
export const VIDEO_PREVIEWS = 3;

/** Media types of the files by `output_format`, the default first; WAV is the sound alone. */
export const VIDEO_TYPES = { mp4: "video/mp4", wav: "audio/wav" } as const;

/** What the files of a request are, which is how their names end, too. */
export function videoFormat({ audioAlone }: Pick<VideoRequest, "audioAlone">): VideoFileFormat {
  return audioAlone ? "wav" : "mp4";
}

type VideoFileFormat = keyof typeof VIDEO_TYPES;

/** Fields that say how MP4 files are written. */
const VIDEO_FILE_FIELDS = ["x264_preset", "output_quality", "output_compression", "fragmented"];

/** A video on disk. */
export interface GivenVideo {
  path: string;
  info: VideoInfo;
}

/** One checked video request; a JSON value, so that it outlives the server. Images are paths of PNG files. */
export interface VideoRequest extends PreparedVideo<string, GivenVideo>, RequestOptions, WithGiven {
  /** The name that the request has for the model, else the served name. */
  model: string;
  /** The served name; records of older versions have none. */
  servedModel?: string;
  /** Constant rate factor of the file. */
  crf: number;
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

/** What a source turned out to be. */
interface Brought {
  readonly field: string;
  readonly kind: "image" | "video" | "audio";
}

/** How a request's images and videos are read. */
interface RequestInputs<Upload, File, Open extends Size> extends VideoInputTypes {
  readonly source: Source<Upload> | File;
  readonly open: Open;
  readonly kept: string;
  readonly clipSource: Source<Upload> | File;
  readonly clip: GivenVideo;
  readonly sound: GivenSound;
}

/** What a video request brings beside its fields. */
export interface VideoInputs<Upload, File extends Brought, Open extends Size> {
  readonly uploads: readonly Upload[];
  /** Says what the sources are. */
  resolve(sources: readonly Source<Upload>[]): Promise<File[]>;
  /** Keeps what it reads under paths. */
  readonly reader: VideoReader<RequestInputs<Upload, File, Open>>;
  /** The folder of what is kept, where there is one. */
  readonly folder?: string;
}

/** @throws {ApiError} 422 for wrong types, 400 for wrong values */
export async function readVideoRequest<
  Upload extends { readonly field: string },
  File extends Brought,
  Open extends Size,
>(
  json: unknown,
  context: RequestContext,
  inputs: VideoInputs<Upload, File, Open>,
): Promise<VideoRequest> {
  const { info } = context;
  const uploads = inputs.uploads.map((file) => ({
    ...file,
    field: inputName(file.field, VIDEO_SPELLINGS),
  }));
  const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
  const body = isObject ? flattenExtras(json as Record<string, unknown>, VIDEO_SPELLINGS) : json;
  if (isObject && isAbsent((body as Record<string, unknown>)["prompt"])) {
    throw badRequest("prompt is required", "prompt", "missing");
  }
  const fields = validate(videoSchema, readScalars(body, videoSchema));
  refusePaths(fields, PATH_FIELDS);
  checkChoice("x264_preset", fields.x264_preset, X264_PRESETS);
  checkChoice("output_format", fields.output_format || undefined, Object.keys(VIDEO_TYPES));
  const audioAlone = fields.output_format === "wav";
  const crf = crfOfQuality(readOutputQuality(fields, "video"));
  const files = await readSources(findSources(fields, uploads), info, inputs);
  const images = files.filter(({ kind }) => kind === "image");
  const videos = files.filter(({ kind }) => kind === "video");
  const [video, secondVideo] = videos;
  if (secondVideo) {
    const message = `Cannot use ${videos.length} videos: this model takes one; omit the others`;
    throw badRequest(message, secondVideo.field);
  }
  const mask = oneSource("mask", fields.mask, uploads);
  const audio = oneSource(AUDIO_FIELD, fields.audio, uploads);
  const references = sourcesOf("reference", fields.reference, uploads);
  const n = fields.num_outputs_per_prompt ?? fields.n;
  const { asked, options, spell, paramOf } = readGeneration({ ...fields, n }, context);
  const { fps, num_frames: numFrames, seconds } = fields;
  const sound = { enableAudio: fields.enable_audio, audioAlone };
  const length = { fps, numFrames, seconds };
  const { ready: { request, isRounded }, idle } = await prepared(
    () =>
      prepareVideo<RequestInputs<Upload, File, Open>>(
        {
          ...asked,
          ...length,
          ...sound,
          images,
          video,
          audio,
          mask,
          references,
          previews: VIDEO_PREVIEWS,
        },
        { ...context, reader: inputs.reader, spell, howToSend: HOW_TO_SEND },
      ),
    (field) => field === "images" ? images[0]!.field : paramOf(field),
  );
  const unread = unreadFiles(uploads, VIDEO_SPELLINGS);
  const seen = {
    ...fields,
    ...(mask && { mask: "given" }),
    ...(audio && { audio: "given" }),
    ...(references.length > 0 && { reference: "given" }),
    ...unread.fields,
  };
  const ignored = findIgnored(seen, videoFieldTable, context, {
    ...idle,
    ...unread.idle,
    enable_audio: !info.givesAudio && !keepsAudio(request) && !audio,
    ...Object.fromEntries(VIDEO_FILE_FIELDS.map((field) => [field, audioAlone])),
    // It is repeated in the record.
    model: false,
  });
  const made = isAbsent(numFrames)
    ? `seconds=${Number((request.numFrames / request.fps).toFixed(2))}`
    : `num_frames=${request.numFrames}`;
  const hasInputs = files.length > 0 || request.references || request.mask !== undefined ||
    audio !== undefined;
  const rounded = [
    ...isRounded ? [made] : [],
    ...soundNote(request) ? [`audio=${Number((request.numFrames / request.fps).toFixed(2))}s`] : [],
  ];
  return {
    ...request,
    ...options,
    loras: await context.findLoras(fields.loras),
    model: fields.model || context.servedModelName,
    servedModel: context.servedModelName,
    ...(hasInputs && inputs.folder !== undefined ? { inputs: inputs.folder } : {}),
    crf,
    preset: (fields.x264_preset ?? DEFAULT_X264_PRESET) as X264Preset,
    ...(fields.fragmented && !audioAlone ? { isFragmented: true } : {}),
    ...(rounded.length > 0 && { rounded }),
    ignored,
  };
}

/** How clients send inputs that are missing. */
const HOW_TO_SEND = {
  image: "'input_reference' or 'reference_url'",
  video: "'video_reference' or 'video_url'",
  lastImage: "'last_image'",
};

/** Brings what a request starts from, where the model takes it. */
async function readSources<Upload extends { readonly field: string }, File extends Brought>(
  given: readonly Source<Upload>[],
  info: RequestContext["info"],
  { resolve }: Pick<VideoInputs<Upload, File, Size>, "resolve">,
): Promise<File[]> {
  const takesImages = info.animates === true || acceptsImage(
    info.supportedTasks.filter((task) => outputOf(task) === "VIDEO"),
  );
  const files = await resolve(given)
    // Whatever is wrong with an image that nobody wants is of no use to its sender.
    .catch((error) => {
      throw takesImages || given[0]!.field !== "input_reference" ? error : noImages(info);
    });
  const images = files.filter(({ kind }) => kind === "image");
  if (images.length > 0 && !takesImages) throw noImages(info);
  if (images[0]?.field === "last_image") {
    throw badRequest(
      "Cannot end with 'last_image': there is no first frame; send it as 'input_reference'",
      "last_image",
    );
  }
  return files;
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
function findSources<Upload extends { readonly field: string }>(
  fields: VideoBody,
  uploads: readonly Upload[],
): Source<Upload>[] {
  return VIDEO_SOURCE_FIELDS.flatMap((field): Source<Upload>[] => {
    const urls = [fields[field] ?? []].flat()
      .map((value) => typeof value === "object" ? value.image_url : value);
    return sourcesOf(field, urls, uploads);
  });
}
