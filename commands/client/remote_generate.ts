/** `denoise generate --url`: a running server does the work. */

import { mkdir, writeFile } from "node:fs/promises";
import { basename, dirname, extname } from "node:path";
import type { Client, Job } from "../../client/mod.ts";
import { describeCut } from "../../engine/reports.ts";
import { httpNames, loraFields, SETTING_FIELDS, SETTING_NAMES } from "../../generation/mod.ts";
import { formatOfPath, type Progress, type TaskType } from "../../mod.ts";
import { BUNDLED_MODEL } from "../../models/lora/bundled.ts";
import { UsageError } from "../failure.ts";
import { flagOfField } from "../field_flags.ts";
import type { GenerateFlags } from "../flags.ts";
import { type Media, mediaOfTask, present } from "../generate_flags.ts";
import type { CommandRequest, CommandWatch } from "../make_results.ts";
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
  const media = work.media ?? await mediaOfServer(client, work.model);
  const file = flags.output ?? `${work.name}${media === "video" ? ".mp4" : ".png"}`;
  const request = generationRequest(
    flags,
    media,
    media === "video" ? undefined : file === STANDARD_OUTPUT ? "png" : formatOfPath(file),
    work.model,
  );
  const own = flagsOfModels(flags);
  if (own.length > 0) {
    onNote(`Note: not used with --url: ${own.join(", ")}; the server has its own`);
  }
  bar.show(0, "Sending");
  const answer = await client.request(request.path, { ...await requestInit(request), signal });
  const unused = answer.headers.get("x-ignored-fields");
  if (unused) {
    onNote(`Note: the server made no use of ${unused.split(", ").map(flagOf).join(", ")}`);
  }
  const rounded = answer.headers.get("x-rounded-fields");
  if (rounded) onNote(`Note: the server makes ${rounded}, the nearest that its model can`);
  const { id } = await answer.json();
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
  }
  const what = outputs.length === 1 ? `1 ${media}` : `${outputs.length} ${media}s`;
  const seeds = outputs.map(({ seed }) => seed).join(", ");
  return `${what} of ${job.size ?? "?"} in ${duration(seconds)}, ${
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

async function mediaOfServer(client: Client, model?: string): Promise<Media> {
  const models = await client.models();
  const card = models.find(({ id }) => id === model) ?? models[0];
  return card ? mediaOfTask(card.task_type as TaskType) : "image";
}

/** Previews that a server makes of each image. */
const PREVIEWS = 3;

interface GenerationRequest {
  readonly path: string;
  readonly body: Record<string, unknown>;
  /** Files by field; one field may have several. */
  readonly files: readonly (readonly [field: string, path: string])[];
  /** Control pictures, which go with or without files. */
  readonly control: readonly string[];
  /** Reference images of an image, which do so, too. */
  readonly references: readonly string[];
}

export function generationRequest(
  flags: GenerateFlags,
  media: Media,
  format?: string,
  model: string | undefined = flags.modelPath === BUNDLED_MODEL ? undefined : flags.modelPath,
): GenerationRequest {
  if (flags.fragmented) {
    throw new UsageError("Cannot use --fragmented with --url: the server writes the file");
  }
  const { image = [], reference = [], video, mask } = flags;
  const settings = SETTING_NAMES.flatMap((name) =>
    flags[name] === undefined ? [] : [[httpNames(name, SETTING_FIELDS[name])[0], flags[name]]]
  );
  const isVideo = media === "video";
  const seed = flags.seed ?? flags.defaultSeed;
  const body = present({
    prompt: flags.prompt,
    ...Object.fromEntries(settings),
    n: flags.numOutputs,
    model,
    size: flags.size,
    width: flags.width,
    height: flags.height,
    seed: Array.isArray(seed) && seed.length === 1 ? seed[0] : seed,
    task_type: flags.taskType,
    fit: flags.fit,
    loras: flags.lora?.map(loraFields),
    output_quality: flags.outputQuality,
    output_compression: flags.outputCompression,
    ...(isVideo
      ? {
        num_frames: flags.numFrames,
        seconds: flags.seconds,
        fps: flags.fps,
        x264_preset: flags.x264Preset,
      }
      : { output_format: format, partial_images: flags.preview ? PREVIEWS : undefined }),
  });
  const [first, last, ...others] = image;
  if (isVideo && others.length > 0) {
    throw new UsageError(`Cannot use ${image.length} images for a video: it takes two at most`);
  }
  const images: [string, string | undefined][] = isVideo
    ? [["input_reference", first], ["last_image", last]]
    : image.map((path) => ["image", path]);
  const files = [
    ...images,
    ...isVideo ? reference.map((path): [string, string] => ["reference", path]) : [],
    ["video", video] as const,
    ["mask", mask] as const,
  ].filter((pair): pair is [string, string] => pair[1] !== undefined);
  const path = isVideo ? "/v1/videos" : `/v1/images/${files.length > 0 ? "edits" : "generations"}`;
  const references = isVideo ? [] : reference;
  return { path, body, files, control: flags.control ?? [], references };
}

/** The request as `fetch` takes it: JSON, or a form where there are files. */
async function requestInit(
  { body, files, control, references = [] }: GenerationRequest,
): Promise<{ method: "POST"; headers: Record<string, string>; body: BodyInit }> {
  const headers = { prefer: "respond-async" };
  if (files.length === 0) {
    const json = { ...headers, "content-type": "application/json" };
    const pictures = {
      ...(control.length > 0 && { control: await Promise.all(control.map(dataUrl)) }),
      ...(references.length > 0 && { reference: await Promise.all(references.map(dataUrl)) }),
    };
    return { method: "POST", headers: json, body: JSON.stringify({ ...body, ...pictures }) };
  }
  const form = new FormData();
  const { prompt, ...others } = body;
  form.set("prompt", String(prompt));
  form.set("extra_body", JSON.stringify(others));
  const pictures = [
    ...control.map((path) => ["control", path] as const),
    ...references.map((path) => ["reference", path] as const),
  ];
  for (const [field, path] of [...files, ...pictures]) {
    form.append(field, new Blob([await Deno.readFile(path)]), basename(path));
  }
  return { method: "POST", headers, body: form };
}

async function dataUrl(path: string): Promise<string> {
  const ending = extname(path).slice(1).toLowerCase();
  const type = ending === "jpg" ? "jpeg" : ending || "png";
  return `data:image/${type};base64,${(await Deno.readFile(path)).toBase64()}`;
}
