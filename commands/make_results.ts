/** What a request of the command line makes with a model that is loaded, and its files. */

import { writeStandardOutput } from "./print.ts";
import { formatOfPath, type Image, type Model } from "../mod.ts";
import { nearestFrames } from "../engine/result_size.ts";
import type { ModelInfo } from "../engine/types.ts";
import { type DistilledDefaults, distilledDefaults } from "../generation/distilled_loras.ts";
import { wantedFrames } from "../generation/duration.ts";
import { isSoundPath, openSound, soundNote } from "../generation/mod.ts";
import { escapeControls } from "../generation/texts.ts";
import { BUNDLED_DRAWS, BUNDLED_MODEL, BUNDLED_SHAPES } from "../models/lora/bundled.ts";
import { UsageError } from "./failure.ts";
import { flagName } from "./field_flags.ts";
import type { GenerateFlags } from "./flags.ts";
import { type FilledFlags, fitToModel } from "./from_file.ts";
import {
  checkMedia,
  fileQuality,
  type Media,
  mediaOfTask,
  present,
  type readOptions,
  videoOptions,
} from "./generate_flags.ts";
import { outputPaths, STANDARD_OUTPUT } from "./output_name.ts";
import { describeSize, print, tell } from "./print.ts";
import { describeProgress, duration, ProgressBar } from "./progress_bar.ts";
import { openScreen, type TerminalImage } from "./terminal_image.ts";

/** A request whose flags and input files have been read. */
export interface CommandRequest {
  readonly flags: GenerateFlags;
  /** What `--from` gave. */
  readonly from: FilledFlags;
  readonly options: Awaited<ReturnType<typeof readOptions>>;
  readonly seeds: readonly number[];
  /** Images or a video; undefined for what the model makes by default. */
  readonly media: Media | undefined;
  /** The file to write, without its ending where `--output` does not name it. */
  readonly name: string;
}

/** How a user looks on. */
export interface CommandWatch {
  readonly bar: ProgressBar;
  /** Where results are shown. */
  readonly screen: TerminalImage | undefined;
  readonly signal: AbortSignal;
  /** Takes what a user should know of the request. */
  readonly onNote: (line: string) => void;
}

export interface MadeResults {
  /** What was made and how long it took. */
  readonly words: string;
  readonly paths: readonly string[];
  /** The last image; undefined after videos. */
  readonly image?: Image;
}

export function openWatch(isShown: boolean): Omit<CommandWatch, "signal"> {
  const bar = new ProgressBar();
  const onNote = (line: string) => {
    bar.clear();
    tell(line);
  };
  return { bar, onNote, screen: isShown ? openScreen() : undefined };
}

/** Says what a file of `--from` holds and a request makes no use of. */
export function tellUnused(
  unused: readonly string[],
  { from }: GenerateFlags,
  { onNote }: Pick<CommandWatch, "onNote">,
): void {
  if (unused.length === 0) return;
  onNote(`Note: not used of ${from}: ${unused.map(escapeControls).join("; ")}`);
}

/** Says which flags of a file change nothing, for it is written without loss. */
export function tellIdle(
  flags: GenerateFlags,
  file: string,
  { onNote }: Pick<CommandWatch, "onNote">,
): void {
  const isSound = isSoundPath(file);
  if (!isSound && file !== STANDARD_OUTPUT && !/\.png$/i.test(file)) return;
  const given = [
    ...(flags.outputQuality === "default" ? [] : ["--output-quality"]),
    ...(flags.outputCompression === undefined ? [] : ["--output-compression"]),
    ...(isSound && flags.x264Preset !== undefined ? ["--x264-preset"] : []),
    ...(isSound && flags.fragmented ? ["--fragmented"] : []),
  ];
  if (given.length === 0) return;
  const kind = isSound ? "WAV" : "PNG";
  onNote(`Note: not used for ${file}: ${given.join(", ")}; ${kind} is written without loss`);
}

/** Says what the bundled model cannot draw, and what can, where a prompt names nothing that it knows. */
export function tellToy(
  modelPath: string,
  { onNote }: Pick<CommandWatch, "onNote">,
  prompt = "",
): void {
  if (modelPath !== BUNDLED_MODEL || BUNDLED_SHAPES.test(prompt)) return;
  onNote(
    `Note: ${BUNDLED_DRAWS} For photos: denoise list --all shows models, denoise run NAME fetches one`,
  );
}

/** Says which settings a LoRA for few steps brings. */
export function tellDistilled(
  options: Pick<CommandRequest["options"], "loras" | keyof DistilledDefaults>,
  info: Pick<ModelInfo, "sampling">,
  { onNote }: Pick<CommandWatch, "onNote">,
): void {
  const found = distilledDefaults(options.loras ?? [], info);
  if (!found) return;
  const chosen = Object.entries(found.defaults)
    .filter(([name]) => options[name as keyof DistilledDefaults] === undefined)
    .filter(([name]) => name !== "scheduler" || options.sampler === undefined)
    .map(([name, value]) => `${flagName(name as keyof DistilledDefaults)} ${value}`);
  if (chosen.length === 0) return;
  onNote(`Note: ${escapeControls(found.name)} is made for ${chosen.join(" ")}; say so for others`);
}

/** Says which words a result was made of. */
export function tellWords(
  { wildcards, numOutputs }: Pick<GenerateFlags, "wildcards" | "numOutputs">,
  path: string,
  prompt: string,
  { onNote }: Pick<CommandWatch, "onNote">,
): void {
  if (wildcards && numOutputs > 1) onNote(`${path}: ${escapeControls(prompt)}`);
}

interface Work extends Omit<CommandRequest, "from" | "media" | "name">, CommandWatch {
  readonly model: Model;
  readonly paths: string[];
}

/** Generates, writes the files and prints their paths. */
export async function makeResults(
  model: Model,
  request: CommandRequest,
  watch: CommandWatch,
): Promise<MadeResults> {
  const { flags, from, seeds, name } = request;
  const { bar, screen } = watch;
  const media = request.media ?? mediaOfTask(model.info.defaultTask);
  checkMedia(media, model.info.supportedTasks, flags);
  const fitted = fitToModel(request.options, from, model.info, media);
  tellUnused(fitted.unused, flags, watch);
  if (media === "image") tellDistilled(fitted.options, model.info, watch);
  const file = flags.output ?? `${name}${ENDINGS[media]}`;
  const images = media === "image" ? fitted.options.layers ?? model.info.layers?.initial ?? 1 : 1;
  const paths = outputPaths(file, flags.numOutputs * images);
  if (model.info.layers && file !== STANDARD_OUTPUT && formatOfPath(file) === "jpeg") {
    throw new UsageError(
      `Cannot write layers to ${file}: JPEG has no transparency; name it with .png or .webp at the end`,
    );
  }
  const shown = screen && flags.preview && {
    ...fitted.options,
    onPreview: (preview: Image) => {
      bar.clear();
      void screen.show(preview);
    },
  };
  tellIdle(flags, file, watch);
  const start = performance.now();
  const work = { ...watch, model, flags, seeds, paths, options: shown || fitted.options };
  const { what, image } = media === "video" ? await makeVideos(work) : await makeImages(work);
  const took = duration((performance.now() - start) / 1000);
  const words = `Generated ${what} in ${took}, ${describeSeeds(seeds)}`;
  return { words, paths, ...present({ image }) };
}

interface Made {
  readonly what: string;
  readonly image?: Image;
}

async function makeImages(work: Work): Promise<Made> {
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
  await work.screen?.show(images.at(-1)!);
  for (const [index, image] of images.entries()) {
    const path = paths[index]!;
    if (path === STANDARD_OUTPUT) writeStandardOutput(await image.encode("png"));
    else {
      await image.save(path, fileQuality(flags, "image"));
      print(path);
      tellWords(flags, path, image.recipe.prompt, work);
    }
  }
  const kind = images[0].recipe.layer === undefined ? "image" : "layer";
  const what = images.length === 1 ? `1 ${kind}` : `${images.length} ${kind}s`;
  return { what: `${what} of ${describeSize(images[0].recipe)}`, image: images.at(-1)! };
}

/** Frames are written as they are decoded: all at once would not fit into memory. */
async function makeVideos(work: Work): Promise<Made> {
  const { model, flags, seeds, paths, bar, signal } = work;
  const { imageMask: _, videoMask: mask, control, referenceMasks, ...options } = work.options;
  if (referenceMasks) {
    throw new UsageError(
      "Cannot use --reference-mask for a video: only IP-Adapters of images show a reference image in a part; omit it",
    );
  }
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
  if (flags.enableAudio === false && !model.info.givesAudio && flags.video === undefined) {
    tell("Note: --no-audio changes nothing: this model makes no sound");
  }
  const preset = flags.x264Preset;
  const sound = flags.audio === undefined ? undefined : await openSound(flags.audio);
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
    tellWords(flags, paths[index]!, video.recipe.prompt, work);
    const cut = sound && index === 0 &&
      soundNote({ audio: sound, numFrames: video.frameCount, fps: video.fps });
    if (cut) tell(`Note: ${cut}`);
    const isSound = video.frameCount === 0;
    const noun = isSound ? "sound" : "video";
    const results = paths.length === 1 ? `1 ${noun}` : `${paths.length} ${noun}s`;
    const frames = video.frameCount === 1 ? "1 frame" : `${video.frameCount} frames`;
    what = isSound ? results : `${results} of ${frames} of ${describeSize(video.recipe)}`;
  }
  return { what };
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

const ENDINGS: Readonly<Record<Media, string>> = { image: ".png", video: ".mp4" };
