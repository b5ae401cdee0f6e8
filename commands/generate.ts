/**
 * `denoise generate`.
 *
 * @module
 */

import { join } from "node:path";
import { resolveQuality } from "../media/quality.ts";
import { type DeviceOptions, formatOfPath, type GenerateOptions, loadModel } from "../mod.ts";
import { checkPrompt, parseSize, resolveSeeds } from "../server/mod.ts";
import { checkOutput } from "./check_output.ts";
import { UsageError } from "./failure.ts";
import { nameForPrompt, outputPaths } from "./output_name.ts";
import { describeProgress, duration, ProgressBar } from "./progress_bar.ts";

/** Flags of `generate`, read and checked. */
export interface GenerateFlags extends DeviceOptions {
  /** What to draw. */
  prompt: string;
  /** A model folder or hub id. */
  modelPath: string;
  /** What to keep away from. */
  negativePrompt?: string;
  /** One seed, or one for each picture. */
  seed?: number[];
  /** `<width>x<height>`. */
  size?: string;
  /** Pixels per row. */
  width?: number;
  /** Number of rows. */
  height?: number;
  /** Denoising steps. */
  numInferenceSteps?: number;
  /** Weight of classifier-free guidance. */
  guidanceScale?: number;
  /** How many pictures. */
  numOutputs: number;
  /** The file to write. */
  output?: string;
  /** Folder of files that `output` does not name. */
  outputPath: string;
  /** Name of preset. */
  outputQuality: string;
  /** 0 to 100, wins over `outputQuality`. */
  outputCompression?: number;
  /** Device memory that may be taken, in bytes. */
  maxVram?: number;
  /** Use the software adapter. */
  software?: boolean;
  /** Whether a GPU that was not tuned yet is tuned first; true when left out. */
  tune?: boolean;
}

/**
 * Makes pictures and writes them to files, whose paths go to standard output.
 *
 * @param flags of the command line
 * @returns the exit status
 */
export async function runGenerate(flags: GenerateFlags): Promise<number> {
  const paths = outputPaths(flags.output ?? defaultPath(flags), flags.numOutputs);
  const options = readOptions(flags, paths[0]!);
  for (const path of paths) checkOutput(path);
  const quality = resolveQuality(flags.outputQuality, flags.outputCompression, "image");

  const bar = new ProgressBar();
  const controller = new AbortController();
  const cancel = () => {
    if (controller.signal.aborted) Deno.exit(130);
    controller.abort(new DOMException("Cancelled", "AbortError"));
  };
  Deno.addSignalListener("SIGINT", cancel);
  if (Deno.build.os !== "windows") Deno.addSignalListener("SIGTERM", cancel);
  try {
    const loading = loadModel(flags.modelPath, {
      ...device(flags),
      onLoadProgress: ({ stage, fraction }) =>
        bar.show(fraction, stage === "tuning" ? "Choosing kernels" : "Loading"),
      onNote: (line) => {
        bar.clear();
        console.error(line);
      },
    });
    const stopped = Promise.withResolvers<never>();
    controller.signal.addEventListener("abort", () => stopped.reject(controller.signal.reason));
    await using model = await Promise.race([loading, stopped.promise]);
    const start = performance.now();
    const images = await model.generate({
      ...options,
      signal: controller.signal,
      onProgress: (progress) => {
        const which = flags.numOutputs > 1 ? ` ${progress.index + 1}/${flags.numOutputs}` : "";
        bar.show(progress.fraction, `Generating${which}`, describeProgress(progress));
      },
    });
    bar.clear();
    for (const [index, image] of images.entries()) {
      await image.save(paths[index]!, quality);
      console.log(paths[index]);
    }
    const { width, height } = images[0];
    const what = images.length === 1 ? "1 picture" : `${images.length} pictures`;
    const seconds = (performance.now() - start) / 1000;
    console.error(`Generated ${what} of ${width}x${height} in ${duration(seconds)}`);
    return 0;
  } finally {
    bar.clear();
    Deno.removeSignalListener("SIGINT", cancel);
    if (Deno.build.os !== "windows") Deno.removeSignalListener("SIGTERM", cancel);
  }
}

/** What the flags say, before a model is loaded for nothing. */
function readOptions(flags: GenerateFlags, path: string): GenerateOptions {
  try {
    formatOfPath(path);
    checkPrompt("--prompt", flags.prompt);
    checkPrompt("--negative-prompt", flags.negativePrompt ?? "", true);
    const size = flags.size === undefined ? {} : parseSize(flags.size);
    const seed = flags.seed?.length === 1 ? flags.seed[0] : flags.seed;
    resolveSeeds(seed, flags.numOutputs);
    return {
      prompt: flags.prompt,
      numOutputs: flags.numOutputs,
      ...size,
      ...(flags.width === undefined ? {} : { width: flags.width }),
      ...(flags.height === undefined ? {} : { height: flags.height }),
      ...(flags.negativePrompt === undefined ? {} : { negativePrompt: flags.negativePrompt }),
      ...(seed === undefined ? {} : { seed }),
      ...(flags.numInferenceSteps === undefined
        ? {}
        : { numInferenceSteps: flags.numInferenceSteps }),
      ...(flags.guidanceScale === undefined ? {} : { guidanceScale: flags.guidanceScale }),
    };
  } catch (error) {
    throw error instanceof RangeError ? new UsageError(error.message) : error;
  }
}

function device(flags: GenerateFlags): DeviceOptions {
  return {
    tuning: flags.tune === false ? "cached" : "auto",
    ...(flags.maxVram === undefined ? {} : { maxVramBytes: flags.maxVram }),
    ...(flags.powerPreference === undefined ? {} : { powerPreference: flags.powerPreference }),
    ...(flags.software === undefined ? {} : { forceSoftware: flags.software }),
    ...(flags.gpuBackend === undefined ? {} : { gpuBackend: flags.gpuBackend }),
  };
}

function defaultPath(flags: GenerateFlags): string {
  const suffix = crypto.randomUUID().slice(0, 8);
  return join(flags.outputPath || ".", nameForPrompt(flags.prompt, new Date(), suffix));
}
