/**
 * `denoise generate`.
 *
 * @module
 */

import { join } from "node:path";
import { loadModel, type Model, type SamplingOptions } from "../mod.ts";
import { outputOf } from "../server/mod.ts";
import { deviceOptions } from "./device_flags.ts";
import { checkOutput } from "./check_output.ts";
import {
  clipOptions,
  fileQuality,
  type GenerateFlags,
  type Media,
  mediaOf,
  readOptions,
  seedsOf,
} from "./generate_flags.ts";
import { nameForPrompt, outputPaths } from "./output_name.ts";
import { partsOf } from "./part_flags.ts";
import { describeProgress, duration, ProgressBar } from "./progress_bar.ts";

/** What the making of pictures and clips has in common. */
interface Work {
  model: Model;
  flags: GenerateFlags;
  options: SamplingOptions;
  paths: string[];
  bar: ProgressBar;
  signal: AbortSignal;
}

/**
 * Makes pictures or clips and writes them to files, whose paths go to standard output.
 *
 * @param flags of the command line
 * @param load loads the model
 * @returns the exit status
 */
export async function runGenerate(
  flags: GenerateFlags,
  load: typeof loadModel = loadModel,
): Promise<number> {
  const asked = mediaOf(flags);
  const name = flags.output ?? defaultPath(flags);
  for (const path of outputPaths(name, flags.numOutputs)) checkOutput(path);
  const options = await readOptions(flags);

  const bar = new ProgressBar();
  const controller = new AbortController();
  const { signal } = controller;
  const cancel = () => {
    if (signal.aborted) Deno.exit(130);
    controller.abort(new DOMException("Cancelled", "AbortError"));
  };
  Deno.addSignalListener("SIGINT", cancel);
  if (Deno.build.os !== "windows") Deno.addSignalListener("SIGTERM", cancel);
  try {
    const loading = load(flags.modelPath, {
      ...deviceOptions(flags),
      parts: partsOf(flags),
      onLoadProgress: ({ stage, fraction }) =>
        bar.show(fraction, LOADING[stage as keyof typeof LOADING] ?? "Loading"),
      onNote: (line) => {
        bar.clear();
        console.error(line);
      },
    });
    const stopped = Promise.withResolvers<never>();
    signal.addEventListener("abort", () => stopped.reject(signal.reason));
    await using model = await Promise.race([loading, stopped.promise]);
    const media = asked ?? (outputOf(model.info.taskType) === "VIDEO" ? "video" : "image");
    const file = flags.output ?? `${name}${ENDINGS[media]}`;
    const paths = outputPaths(file, flags.numOutputs);
    const start = performance.now();
    const work = { model, flags, options, paths, bar, signal };
    const what = media === "video" ? await makeClips(work) : await makePictures(work);
    console.error(`Generated ${what} in ${duration((performance.now() - start) / 1000)}`);
    return 0;
  } finally {
    bar.clear();
    Deno.removeSignalListener("SIGINT", cancel);
    if (Deno.build.os !== "windows") Deno.removeSignalListener("SIGTERM", cancel);
  }
}

const LOADING = { download: "Fetching", tuning: "Choosing kernels", weights: "Loading" } as const;

const ENDINGS: Readonly<Record<Media, string>> = { image: ".png", video: ".mp4" };

/** Returns what was made, in words. */
async function makePictures({ model, flags, options, paths, bar, signal }: Work): Promise<string> {
  const images = await model.generate({
    ...options,
    ...{ signal, numOutputs: flags.numOutputs, seed: seedsOf(flags) },
    onProgress: (progress) =>
      bar.show(
        progress.fraction,
        `Generating${place(progress.index, paths)}`,
        describeProgress(progress),
      ),
  });
  bar.clear();
  for (const [index, image] of images.entries()) {
    await image.save(paths[index]!, fileQuality(flags, "image"));
    console.log(paths[index]);
  }
  const { width, height } = images[0];
  const what = images.length === 1 ? "1 picture" : `${images.length} pictures`;
  return `${what} of ${width}x${height}`;
}

/** Each clip is written before the next one is made: all at once would not fit into memory. */
async function makeClips({ model, flags, options, paths, bar, signal }: Work): Promise<string> {
  const preset = flags.x264Preset;
  let what = "";
  for (const [index, seed] of seedsOf(flags).entries()) {
    const before = `Generating${place(index, paths)}`;
    const clip = await model.generateVideo({
      ...options,
      ...clipOptions(flags),
      ...{ signal, seed },
      onProgress: (progress) => bar.show(progress.fraction, before, describeProgress(progress)),
    });
    bar.show(1, before, "writing");
    await clip.save(paths[index]!, {
      ...{ signal, quality: fileQuality(flags, "video") },
      ...(preset ? { preset } : {}),
    });
    bar.clear();
    console.log(paths[index]);
    const clips = paths.length === 1 ? "1 clip" : `${paths.length} clips`;
    what = `${clips} of ${clip.frames.length} frames of ${clip.width}x${clip.height}`;
  }
  return what;
}

function place(index: number, { length }: readonly string[]): string {
  return length > 1 ? ` ${index + 1}/${length}` : "";
}

/** Without an ending, which the model may have to decide. */
function defaultPath(flags: GenerateFlags): string {
  const suffix = crypto.randomUUID().slice(0, 8);
  return join(flags.outputPath || ".", nameForPrompt(flags.prompt, new Date(), suffix));
}
