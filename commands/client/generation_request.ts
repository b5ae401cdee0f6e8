/** What the flags of `generate` ask for, as a request to a server. */

import { basename, extname } from "node:path";
import { httpNames, loraFields, SETTING_FIELDS, SETTING_NAMES } from "../../generation/mod.ts";
import type { GenerateFlags } from "../flags.ts";
import { type Media, present } from "../generate_flags.ts";
import { UsageError } from "../failure.ts";

/** Previews that a server makes of each image. */
const PREVIEWS = 3;

/** Where a request goes, and what it says. */
export interface GenerationRequest {
  readonly path: string;
  readonly body: Record<string, unknown>;
  /** Files by field; one field may have several. */
  readonly files: readonly (readonly [field: string, path: string])[];
  /** Control picture, which goes with or without files. */
  readonly control?: string;
}

/** Makes a request. */
export function generationRequest(
  flags: GenerateFlags,
  media: Media,
  format?: string,
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
    model: flags.modelPath === "bundled" ? undefined : flags.modelPath,
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
    ...reference.map((path): [string, string] => ["reference", path]),
    ["video", video] as const,
    ["mask", mask] as const,
  ].filter((pair): pair is [string, string] => pair[1] !== undefined);
  const path = isVideo ? "/v1/videos" : `/v1/images/${files.length > 0 ? "edits" : "generations"}`;
  return { path, body, files, ...present({ control: flags.control }) };
}

/** The request as `fetch` takes it: JSON, or a form where there are files. */
export async function requestInit(
  { body, files, control }: GenerationRequest,
): Promise<{ method: "POST"; headers: Record<string, string>; body: BodyInit }> {
  const headers = { prefer: "respond-async" };
  if (files.length === 0) {
    const json = { ...headers, "content-type": "application/json" };
    const picture = control === undefined ? {} : { control: await dataUrl(control) };
    return { method: "POST", headers: json, body: JSON.stringify({ ...body, ...picture }) };
  }
  const form = new FormData();
  const { prompt, ...others } = body;
  form.set("prompt", String(prompt));
  form.set("extra_body", JSON.stringify(others));
  const pictures = control === undefined ? [] : [["control", control] as const];
  for (const [field, path] of [...files, ...pictures]) {
    form.append(field, new Blob([await Deno.readFile(path)]), basename(path));
  }
  return { method: "POST", headers, body: form };
}

/** A file of a picture as an address. */
async function dataUrl(path: string): Promise<string> {
  const ending = extname(path).slice(1).toLowerCase();
  const type = ending === "jpg" ? "jpeg" : ending || "png";
  return `data:image/${type};base64,${(await Deno.readFile(path)).toBase64()}`;
}
