/** `denoise generate --url`: a running server does the work. */

import { mkdir, writeFile } from "node:fs/promises";
import { basename, dirname, extname } from "node:path";
import type { Client, GenerationRequest, Job } from "../../client/mod.ts";
import { frameFields } from "../../client/request.ts";
import { describeCut } from "../../engine/reports.ts";
import {
  httpNames,
  isSoundPath,
  loraFields,
  SETTING_FIELDS,
  SETTING_NAMES,
} from "../../generation/mod.ts";
import { formatOfPath, type Progress, type TaskType } from "../../mod.ts";
import { BUNDLED_MODEL } from "../../models/lora/bundled.ts";
import { UsageError } from "../failure.ts";
import { flagOfField } from "../field_flags.ts";
import type { GenerateFlags } from "../flags.ts";
import { checkMedia, type Media, mediaOfTask, present } from "../generate_flags.ts";
import { type CommandRequest, type CommandWatch, tellWords } from "../make_results.ts";
import { flagsOfModels } from "../model_options.ts";
import { outputPaths, STANDARD_OUTPUT } from "../output_name.ts";
import { print, writeStandardOutput } from "../print.ts";
import { describeProgress, duration } from "../progress_bar.ts";

interface RemoteWork extends CommandWatch, Pick<CommandRequest, "flags" | "media" | "name"> {
  readonly client: Client;
  /** Model of the server; by default that of the flags, where the bundled one stands for the server's first. */
  readonly model?: string;
}

/** Sends a request, waits for its job and writes the results to files; the job is cancelled when `signal` fires. */
export async function generateRemotely(work: RemoteWork): Promise<string> {
  const { client, flags, bar, signal, onNote } = work;
  const named = work.model ?? (flags.modelPath === BUNDLED_MODEL ? undefined : flags.modelPath);
  const models = await client.models({ signal });
  const card = models.find(({ id }) => id === named) ?? models[0];
  const media = work.media ?? (card ? mediaOfTask(card.task_type as TaskType) : "image");
  if (card && (named === undefined || card.id === named)) {
    const tasks = card.supported_task_types as readonly TaskType[];
    checkMedia(media, tasks, { ...flags, modelPath: card.id });
  }
  const file = flags.output ?? `${work.name}${media === "video" ? ".mp4" : ".png"}`;
  const request = generationRequest(
    flags,
    media,
    media === "video"
      ? isSoundPath(file) ? "wav" : undefined
      : file === STANDARD_OUTPUT
      ? "png"
      : formatOfPath(file),
    named,
  );
  const own = flagsOfModels(flags);
  if (own.length > 0) {
    onNote(`Note: not used with --url: ${own.join(", ")}; the server has its own`);
  }
  bar.show(0, "Sending");
  const { id, response } = await client.start(media, await withFiles(request), { signal });
  const unused = response.headers.get("x-ignored-fields");
  if (unused) {
    onNote(`Note: the server made no use of ${unused.split(", ").map(flagOf).join(", ")}`);
  }
  const rounded = response.headers.get("x-rounded-fields");
  if (rounded) onNote(`Note: the server makes ${rounded}, the nearest that its model can`);
  const { job, seconds } = await follow(work, id);
  bar.clear();
  for (const cut of job.cut_prompts ?? []) onNote(describeCut(cut));
  const outputs = job.outputs ?? [];
  const paths = outputPaths(file, outputs.length);
  for (const [index, output] of outputs.entries()) {
    const bytes = await (await client.download(output, { signal })).bytes();
    const path = paths[index]!;
    if (path === STANDARD_OUTPUT) {
      writeStandardOutput(bytes);
      continue;
    }
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, bytes);
    print(path);
    tellWords(flags, path, output.prompt ?? "", { onNote });
  }
  const isSound = media === "video" && isSoundPath(file);
  const noun = isSound ? "sound" : media;
  const what = outputs.length === 1 ? `1 ${noun}` : `${outputs.length} ${noun}s`;
  const seeds = outputs.map(({ seed }) => seed).join(", ");
  return `${what}${isSound ? "" : ` of ${job.size ?? "?"}`} in ${duration(seconds)}, ${
    outputs.length === 1 ? "seed" : "seeds"
  } ${seeds}`;
}

function flagOf(field: string): string {
  return flagOfField(field) ?? `--${field === "model" ? "model-path" : field.replaceAll("_", "-")}`;
}

/** The job at its end, and for how long it ran: its own times are whole seconds. */
async function follow(
  { client, bar, screen, signal }: RemoteWork,
  id: string,
): Promise<{ job: Job; seconds: number }> {
  let start = performance.now();
  let isQueued = false;
  for await (const event of client.follow(id, { signal })) {
    if (isQueued && event.type !== "queued") start = performance.now();
    isQueued = event.type === "queued";
    switch (event.type) {
      case "queued":
        bar.show(0, "Waiting", event.place === null ? "" : `place ${event.place}`);
        break;
      case "preview":
        bar.clear();
        await screen?.showFile(await event.image.bytes());
        break;
      case "progress": {
        const { stage, etaSeconds, ...progress } = event;
        const after = stage
          ? describeProgress({
            ...progress,
            ...present({ etaSeconds }),
            stage: stage as Progress["stage"],
          })
          : "";
        bar.show(event.fraction, "Generating", after);
        break;
      }
      case "completed":
        return { job: event.job, seconds: (performance.now() - start) / 1000 };
    }
  }
  throw new Error(`Cannot follow the job ${id}: its events ended`);
}

/** Previews that a server makes of each image. */
const PREVIEWS = 3;

interface FileRequest {
  readonly body: GenerationRequest;
  /** Files by field; one field may have several. */
  readonly files: readonly (readonly [field: string, path: string])[];
}

export function generationRequest(
  flags: GenerateFlags,
  media: Media,
  format?: string,
  model: string | undefined = flags.modelPath === BUNDLED_MODEL ? undefined : flags.modelPath,
): FileRequest {
  if (flags.fragmented) {
    throw new UsageError("Cannot use --fragmented with --url: the server writes the file");
  }
  const { image = [], reference = [], video, audio, mask } = flags;
  const settings = SETTING_NAMES.flatMap((name) =>
    flags[name] === undefined ? [] : [[httpNames(name, SETTING_FIELDS[name])[0], flags[name]]]
  );
  const isVideo = media === "video";
  const seed = flags.seed ?? flags.defaultSeed;
  const fields = present({
    ...Object.fromEntries(settings),
    n: flags.numOutputs,
    model,
    size: flags.size,
    width: flags.width,
    height: flags.height,
    seed: Array.isArray(seed) && seed.length === 1 ? seed[0] : seed,
    task_type: flags.taskType,
    fit: flags.fit,
    wildcards: flags.wildcards,
    loras: flags.lora?.map(loraFields),
    output_quality: flags.outputQuality,
    output_compression: flags.outputCompression,
    ...(isVideo
      ? {
        num_frames: flags.numFrames,
        seconds: flags.seconds,
        fps: flags.fps,
        x264_preset: flags.x264Preset,
        output_format: format,
        enable_audio: flags.enableAudio === false ? false : undefined,
      }
      : { output_format: format, partial_images: flags.preview ? PREVIEWS : undefined }),
  });
  const images = isVideo
    ? Object.entries(frameFields(image)).flatMap(([field, paths]) =>
      paths.map((path): [string, string] => [field, path])
    )
    : image.map((path): [string, string] => ["image", path]);
  const files = [
    ...images,
    ...reference.map((path): [string, string] => ["reference", path]),
    ["video", video] as const,
    ["audio", audio] as const,
    ["mask", mask] as const,
    ...(flags.control ?? []).map((path): [string, string] => ["control", path]),
    ...(flags.referenceMask ?? []).map((path): [string, string] => ["reference_mask", path]),
  ].filter((pair): pair is [string, string] => pair[1] !== undefined);
  return { body: { prompt: flags.prompt!, ...fields }, files };
}

/** The fields with the files themselves; lists where there may be several of a field. */
async function withFiles({ body, files }: FileRequest): Promise<GenerationRequest> {
  const blobs: Record<string, File[]> = {};
  for (const [field, path] of files) {
    const type = IMAGE_TYPES.get(extname(path).toLowerCase()) ?? "";
    (blobs[field] ??= []).push(new File([await Deno.readFile(path)], basename(path), { type }));
  }
  return { ...body, ...blobs };
}

/** What data URLs call images; of other files the server looks at the bytes. */
const IMAGE_TYPES: ReadonlyMap<string, string> = new Map([
  ...["png", "webp", "jpeg"].map((format): [string, string] => [`.${format}`, `image/${format}`]),
  [".jpg", "image/jpeg"],
]);
