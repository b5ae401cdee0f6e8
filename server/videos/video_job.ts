/** A video request on the GPU: one video after the other, each encoded while it is decoded. */

import { withVisions } from "../../generation/size.ts";
import { withVideoLosses } from "../../generation/image_crf.ts";
import { engineRequest } from "../../generation/prepare.ts";
import { soundShape, videoShape, videoStream } from "../../generation/prepare_video.ts";
import { readFrames } from "../../generation/video_frames.ts";
import type {
  Engine,
  GenerateRequest,
  GenerationControl,
  Image,
  Waveform,
} from "../../engine/types.ts";
import {
  AudioError,
  type Ffmpeg,
  readAudio,
  VideoError,
  type VideoWriter,
  writeVideo,
} from "../../media/video/mod.ts";
import { encodeWav, fitWaveform } from "../../media/waveform.ts";
import { writeFile } from "../../platform/mod.ts";
import { badRequest } from "../contract/errors.ts";
import { keepInputs, type KeptInput } from "../inputs/kept_inputs.ts";
import { copyGiven, readImage } from "../inputs/references.ts";
import type { JobContext } from "../jobs/job.ts";
import { type JobResult, makeOutputs, type StageClock } from "../jobs/outputs.ts";
import type { ResultStorage, StoredFile } from "../storage/result_storage.ts";
import type { UnfinishedVideos } from "./unfinished_videos.ts";
import { VIDEO_TYPES, videoFormat, type VideoRequest } from "./video_request.ts";

interface VideoJob {
  engine: Engine;
  request: VideoRequest;
  storage: Pick<ResultStorage, "writeFrom" | "remove">;
  ffmpeg: Ffmpeg;
  /** How often an unfinished video is shown. */
  previews: number;
  stages?: StageClock;
  /** Is told of files that play while they are written. */
  unfinished?: UnfinishedVideos;
}

/**
 * Makes the videos of a request.
 *
 * @throws {ServiceError} with the engine's words when it refuses the request; anything else that
 * engine, disk or FFmpeg throw. Files written so far are removed then
 */
export async function runVideoJob(job: VideoJob, context: JobContext): Promise<JobResult> {
  const { request, storage, unfinished } = job;
  const files: StoredFile[] = [];
  const kept: KeptInput[] = [];
  try {
    await keepInputs(
      context.id,
      request,
      kept,
      (name, { path, contentType }) =>
        storage.writeFrom(name, contentType, (to) => copyGiven(path, to)),
    );
    const inputs = await readInputs(job, context.signal);
    const facts = await makeOutputs(job, context, async ({ index, signal, generate }) => {
      const seed = request.seeds[index]!;
      const format = videoFormat(request);
      const name = `${context.id}${request.seeds.length > 1 ? `_${index}` : ""}.${format}`;
      if (format === "wav") {
        files[index] = await storage.writeFrom(name, VIDEO_TYPES[format], async (path) => {
          const { audio } = await generate({ ...engineRequest(request, seed), ...inputs });
          const { seconds } = videoStream(request);
          await writeFile(path, encodeWav(fitWaveform(audio!, seconds)));
        });
        return signal.throwIfAborted();
      }
      files[index] = await storage.writeFrom(name, VIDEO_TYPES[format], async (path) => {
        const writer = new FrameWriter(job, path, signal);
        const ended = request.isFragmented ? unfinished?.begin(context.id, index, path) : undefined;
        try {
          await generate({ ...engineRequest(request, seed), ...inputs }, writer);
          await writer.finish();
          ended?.(true);
        } catch (error) {
          ended?.(false);
          await writer.abandon();
          throw error;
        }
      });
      signal.throwIfAborted();
    });
    return { files, ...facts, ...(kept.length > 0 && { inputs: kept }) };
  } catch (error) {
    for (const file of [...files, ...kept]) if (file) await storage.remove(file).catch(() => {});
    throw error;
  }
}

/** Frames and sound arrive when they arrive; the file takes them one after the other. */
class FrameWriter implements Pick<GenerationControl, "onFrame" | "onAudio"> {
  readonly #stop = new AbortController();
  readonly #file: VideoWriter;
  #last: Promise<void> = Promise.resolve();

  constructor({ request, ffmpeg }: VideoJob, path: string, jobSignal: AbortSignal) {
    const { crf, preset, isFragmented } = request;
    const stream = videoStream(request);
    const signal = AbortSignal.any([jobSignal, this.#stop.signal]);
    // Found and removed with the video's own file, should the server be killed.
    const soundPath = `${path}.wav.part`;
    this.#file = writeVideo(ffmpeg, {
      ...stream,
      path,
      soundPath,
      crf,
      preset,
      isFragmented,
      signal,
    });
  }

  /** Resolves when the encoder has the frame. */
  readonly onFrame = (frame: Image): Promise<void> => this.#add(() => this.#file.write(frame.data));

  readonly onAudio = (audio: Waveform): void => void this.#add(() => this.#file.addAudio(audio));

  #add(add: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(add);
    // `finish` reports it.
    this.#last.catch(() => {});
    return this.#last;
  }

  async finish(): Promise<void> {
    await this.#last;
    await this.#file.finish();
  }

  /** Stops the encoder, which would wait for more frames. */
  async abandon(): Promise<void> {
    this.#stop.abort();
    await this.#last.catch(() => {});
    await this.#file.finish().catch(() => {});
  }
}

async function readInputs(
  { engine, request, ffmpeg }: VideoJob,
  signal: AbortSignal,
): Promise<Pick<GenerateRequest, "images" | "video" | "audio" | "mask" | "references">> {
  const read = (paths: readonly string[] = []) =>
    Promise.all(paths.map((path) => readImage(path, signal)));
  const references = await read(request.references);
  const { video, audio, mask } = request;
  const given = {
    images: await withVideoLosses(
      withVisions(await read(request.images), await read(request.visions)),
      request,
      engine.info,
      () => Promise.resolve(ffmpeg),
      signal,
    ),
    ...(references.length > 0 && { references }),
    ...(audio && {
      audio: await readAudio(ffmpeg, audio.path, { ...soundShape(request, engine.info), signal })
        .catch(refuseDamaged),
    }),
  };
  if (!video) return given;
  try {
    const shape = videoShape(request, engine.info);
    const frames = await readFrames(ffmpeg, video, { ...shape, signal });
    if (!mask) return { ...given, video: frames };
    const masks = typeof mask === "string"
      ? await read([mask])
      : await readFrames(ffmpeg, mask, { ...request, signal });
    return { ...given, video: frames, mask: masks };
  } catch (error) {
    return refuseDamaged(error);
  }
}

/** What looking at the file could not find: its sender's mistake all the same. */
function refuseDamaged(error: unknown): never {
  if (error instanceof VideoError || error instanceof AudioError) {
    throw badRequest(error.message, undefined, "invalid_source");
  }
  throw error;
}
