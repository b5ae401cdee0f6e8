/** `denoise generate`. */

import { join } from "node:path";
import {
  formatOfPath,
  type Image,
  loadModel,
  type LoadModelOptions,
  type Model,
  type SamplingOptions,
} from "../mod.ts";
import { escapeControls } from "../generation/texts.ts";
import { nearestFrames } from "../engine/result_size.ts";
import { wantedFrames } from "../generation/duration.ts";
import { splitLoras } from "../generation/recipe.ts";
import { describeFileError } from "../platform/mod.ts";
import { UsageError } from "./failure.ts";
import { generateRemotely } from "./client/remote_generate.ts";
import { ServerClient } from "./client/server_client.ts";
import type { GenerateFlags } from "./flags.ts";
import { fillFromFile, fitToModel } from "./from_file.ts";
import {
  fileQuality,
  type Media,
  mediaOf,
  mediaOfTask,
  present,
  readOptions,
  seedsOf,
  videoOptions,
} from "./generate_flags.ts";
import { deviceOptions, partsOf } from "./model_options.ts";
import { checkOutput, nameForPrompt, outputPaths } from "./output_name.ts";
import { StopSignals } from "./stop_signals.ts";
import { describeProgress, duration, loadingBar, ProgressBar } from "./progress_bar.ts";
import { openScreen } from "./terminal_image.ts";
import { describeSize, print, tell } from "./print.ts";

interface Work {
  model: Model;
  flags: GenerateFlags;
  options: Awaited<ReturnType<typeof readOptions>>;
  seeds: readonly number[];
  paths: string[];
  bar: ProgressBar;
  signal: AbortSignal;
}

/** `denoise generate`, with the prompt where it stands in words or in a file. */
export async function runGenerateCommand(
  words: readonly string[],
  flags: GenerateFlags,
): Promise<number> {
  return await runGenerate(await promptOf(words, flags));
}

/** The flags with the one prompt that is given. */
export async function promptOf(
  words: readonly string[],
  { promptFile, ...flags }: GenerateFlags,
): Promise<GenerateFlags> {
  const word = words.length > 0 ? words.join(" ") : undefined;
  const given = Object.entries({ "--prompt": flags.prompt, "--prompt-file": promptFile, word })
    .filter(([, value]) => value !== undefined).map(([name]) => name);
  if (given.length > 1) {
    const names = given.map((name) => name === "word" ? "a prompt without flag" : name);
    throw new UsageError(`Cannot use ${names.join(" with ")}: give one of them`);
  }
  const file = promptFile ?? (word === "-" ? word : undefined);
  const prompt = file === undefined ? word ?? flags.prompt : await readPrompt(file);
  return { ...flags, ...present({ prompt }) };
}

/** The text without the end of its last line. */
const ended = (text: string) => text.replace(/\r?\n$/, "");

/** The text of a file, or of standard input for `-`. */
async function readPrompt(file: string): Promise<string> {
  if (file === "-") return ended(await new Response(Deno.stdin.readable).text());
  try {
    return ended(await Deno.readTextFile(file));
  } catch (error) {
    throw new UsageError(`Cannot read the prompt in ${file}: ${describeFileError(error)}`);
  }
}

export async function runGenerate(
  flags: GenerateFlags,
  load: typeof loadModel = loadModel,
): Promise<number> {
  const asked = mediaOf(flags);
  const from = await fillFromFile(flags);
  flags = { ...from.flags, ...askedPrompt(from.flags) };
  const options = await readOptions(flags);
  const name = flags.output ?? defaultPath(flags.outputPath, options.prompt);
  for (const path of outputPaths(name, flags.numOutputs)) checkOutput(path);
  const seeds = seedsOf(flags);

  const bar = new ProgressBar();
  using stop = new StopSignals();
  const { signal } = stop;
  const screen = flags.preview ? openScreen() : undefined;
  const onNote = (line: string) => {
    bar.clear();
    tell(line);
  };
  const tellUnused = (unused: readonly string[]) => {
    if (unused.length === 0) return;
    onNote(`Note: not used of ${flags.from}: ${unused.map(escapeControls).join("; ")}`);
  };
  tellUnused(from.unused);
  for (const { name, strength } of splitLoras(flags.prompt ?? "").loras) {
    onNote(
      `Note: the prompt names a LoRA, which is read as words; use --lora ${
        escapeControls(name)
      }:${strength}`,
    );
  }
  try {
    const { url, apiKey } = flags;
    if (url !== undefined) {
      const client = new ServerClient({ url, ...(apiKey === undefined ? {} : { apiKey }) });
      const what = await generateRemotely({
        client,
        flags,
        media: asked,
        name,
        bar,
        screen,
        signal,
        onNote,
      });
      tell(`Generated ${what}`);
      return 0;
    }
    await using model = await load(flags.modelPath, {
      ...deviceOptions(flags),
      parts: partsOf(flags),
      signal,
      ...preparedOf(flags, asked, options),
      onLoadProgress: loadingBar(bar),
      onNote,
    });
    const media = asked ?? (mediaOfTask(model.info.defaultTask));
    const fitted = fitToModel(options, from, model.info, media);
    tellUnused(fitted.unused);
    const file = flags.output ?? `${name}${ENDINGS[media]}`;
    const images = media === "image" ? fitted.options.layers ?? model.info.layers?.initial ?? 1 : 1;
    const paths = outputPaths(file, flags.numOutputs * images);
    if (model.info.layers && formatOfPath(file) === "jpeg") {
      throw new UsageError(
        `Cannot write layers to ${file}: JPEG has no transparency; name it with .png or .webp at the end`,
      );
    }
    const start = performance.now();
    const shown = screen && {
      ...fitted.options,
      onPreview: (preview: Image) => {
        bar.clear();
        void screen.show(preview);
      },
    };
    const work = {
      model,
      flags,
      seeds,
      paths,
      bar,
      signal,
      options: shown ?? fitted.options,
    };
    const what = media === "video" ? await makeVideos(work) : await makeImages(work);
    const seconds = duration((performance.now() - start) / 1000);
    tell(`Generated ${what} in ${seconds}, ${describeSeeds(seeds)}`);
    return 0;
  } finally {
    bar.clear();
  }
}

/** What the model gets ready for while it is loaded: a request from text, which is known without its files. */
function preparedOf(
  { image, video, mask, reference, lora, taskType, numFrames }: GenerateFlags,
  media: Media | undefined,
  { width, height, guidanceScale }: SamplingOptions,
): Pick<LoadModelOptions, "prepared"> {
  if (media === "video" && numFrames === undefined) return {};
  if ([image, video, mask, reference, lora, taskType].some((given) => given !== undefined)) {
    return {};
  }
  return { prepared: present({ width, height, numFrames, guidanceScale }) };
}

/** The prompt of somebody at a terminal who gave none. */
function askedPrompt(flags: GenerateFlags): { prompt?: string } {
  if (flags.prompt !== undefined || !Deno.stdin.isTerminal()) return {};
  const answer = prompt("What shall be made?");
  return answer ? { prompt: answer } : {};
}

const ENDINGS: Readonly<Record<Media, string>> = { image: ".png", video: ".mp4" };

/** Returns what was made, in words. */
async function makeImages(work: Work): Promise<string> {
  const { model, flags, seeds, paths, bar, signal } = work;
  const { imageMask: mask, videoMask, ...options } = work.options;
  if (videoMask && !mask) {
    throw new Error(`Cannot use the mask ${flags.mask}: it is a video; name an image`);
  }
  const images = await model.generate({
    ...options,
    ...(mask ? { mask } : {}),
    signal,
    numOutputs: flags.numOutputs,
    seed: [...seeds],
    onProgress: (progress) =>
      bar.show(
        progress.fraction,
        `Generating${place(progress.index, seeds)}`,
        describeProgress(progress),
      ),
  });
  bar.clear();
  for (const [index, image] of images.entries()) {
    await image.save(paths[index]!, fileQuality(flags, "image"));
    print(paths[index]!);
  }
  const kind = images[0].recipe.layer === undefined ? "image" : "layer";
  const what = images.length === 1 ? `1 ${kind}` : `${images.length} ${kind}s`;
  return `${what} of ${describeSize(images[0].recipe)}`;
}

/** Frames are written as they are decoded: all at once would not fit into memory. */
async function makeVideos(work: Work): Promise<string> {
  const { model, flags, seeds, paths, bar, signal } = work;
  const { imageMask: _, videoMask: mask, control, ...options } = work.options;
  if (control) {
    throw new UsageError("Cannot use --control for a video: ControlNets steer images; omit it");
  }
  const { fps = model.info.defaults.fps } = flags;
  // Without a length, the model's own is used, which it can make.
  const asked = wantedFrames(flags, fps, { numFrames: 1 });
  const made = nearestFrames(asked, model.info);
  if (made !== asked && made <= model.info.maxFrames && !model.info.animates) {
    tell(
      `Note: makes ${made} frames where ${
        Number(asked.toFixed(2))
      } were asked for: this model makes multiples of ` +
        `${model.info.frameMultiple} and one more`,
    );
  }
  const preset = flags.x264Preset;
  let what = "";
  for (const [index, seed] of seeds.entries()) {
    const before = `Generating${place(index, paths)}`;
    const video = await model.saveVideo(paths[index]!, {
      ...options,
      ...(mask ? { mask } : {}),
      ...videoOptions(flags),
      signal,
      seed,
      onProgress: (progress) => bar.show(progress.fraction, before, describeProgress(progress)),
    }, {
      quality: fileQuality(flags, "video"),
      isFragmented: flags.fragmented,
      ...(preset ? { preset } : {}),
    });
    bar.clear();
    print(paths[index]!);
    const videos = paths.length === 1 ? "1 video" : `${paths.length} videos`;
    const frames = video.frameCount === 1 ? "1 frame" : `${video.frameCount} frames`;
    what = `${videos} of ${frames} of ${describeSize(video.recipe)}`;
  }
  return what;
}

/** Seeds in words: `seed 7`, `seeds 7 to 9` or `seeds 3, 1`. */
function describeSeeds(seeds: readonly number[]): string {
  const [first = 0, last = first] = [seeds[0], seeds.at(-1)];
  if (seeds.length === 1) return `seed ${first}`;
  const counts = seeds.every((seed, index) => seed === first + index);
  return counts ? `seeds ${first} to ${last}` : `seeds ${seeds.join(", ")}`;
}

function place(index: number, { length }: readonly unknown[]): string {
  return length > 1 ? ` ${index + 1}/${length}` : "";
}

/** A path without an ending, which the model may have to decide. */
function defaultPath(folder: string, prompt: string): string {
  const suffix = crypto.randomUUID().slice(0, 8);
  return join(folder || ".", nameForPrompt(prompt, new Date(), suffix));
}
