/** Images and videos that a request for a video brings to a server. */

import { BusyError } from "../../media/isolated/slots.ts";
import {
  AudioError,
  checkVideoWork,
  type Ffmpeg,
  probeAudio,
  probeVideo,
  VideoError,
} from "../../media/video/mod.ts";
import type { UploadedFile } from "../inputs/multipart.ts";
import {
  imageReader,
  type InputFile,
  type InputSources,
  type OpenImage,
  resolveReferences,
  tooBusy,
} from "../inputs/references.ts";
import { badSource, type Source } from "../inputs/sources.ts";
import type { VideoInputs } from "./video_request.ts";

interface VideoSources extends InputSources {
  readonly ffmpeg: Ffmpeg;
}

/** Reads a server's inputs: to files in a folder of the request. */
export function videoInputs(
  uploads: readonly UploadedFile[],
  sources: VideoSources,
): VideoInputs<UploadedFile, InputFile, OpenImage> {
  const resolve = (given: readonly Source[]) =>
    resolveReferences(given, { ...sources, takesVideo: true });
  const images = imageReader(sources);
  const fileOf = async (source: Source | InputFile) => {
    if ("kind" in source) return source;
    const [file] = await resolve([source]);
    return file!;
  };
  const openClip = async (source: Source | InputFile) =>
    await probed(await fileOf(source), sources, "video", probeVideo);
  const reader: VideoInputs<UploadedFile, InputFile, OpenImage>["reader"] = {
    ...images,
    openClip,
    openSound: async (source) => await probed(await fileOf(source), sources, "sound", probeAudio),
    openMask: async (source) => {
      const file = await fileOf(source);
      return file.kind === "video" ? await openClip(file) : { image: await images.open(file) };
    },
    checkClip: ({ field }, { info }, { fps, numFrames }) => {
      try {
        checkVideoWork(info, { fps, maxFrames: numFrames });
      } catch (error) {
        if (error instanceof VideoError) throw badSource(field, error.message);
        throw error;
      }
    },
  };
  return { uploads, resolve, reader, folder: sources.folder.path };
}

/** Looks at a file of a request; `kind` says what it should be. */
async function probed<Info>(
  { path, field }: InputFile,
  { ffmpeg, signal }: VideoSources,
  kind: "video" | "sound",
  probe: (ffmpeg: Ffmpeg, path: string, options: { signal?: AbortSignal }) => Promise<Info>,
): Promise<{ path: string; info: Info }> {
  try {
    return { path, info: await probe(ffmpeg, path, signal ? { signal } : {}) };
  } catch (error) {
    if (error instanceof VideoError || error instanceof AudioError) {
      throw badSource(field, error.message);
    }
    if (error instanceof BusyError) throw tooBusy(kind, error);
    throw error;
  }
}
