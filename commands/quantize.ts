/** `denoise quantize`. */
import { describeWriteError, isWriteError } from "../generation/write_error.ts";
import { componentFolder, hasIndex, readModelIndex } from "../hub/model_index.ts";
import { containerOf } from "../models/checkpoints/quantize/mod.ts";
import { quantize } from "../models/file_tools.ts";
import { checkOutput } from "./output_name.ts";
import { asUsage } from "./failure.ts";
import type { QuantizeFlags } from "./flags.ts";
import { localModel } from "./model_options.ts";
import { duration, ProgressBar } from "./progress_bar.ts";
import { StopSignals } from "./stop_signals.ts";
import { gigabytes, print, tell } from "./print.ts";

export async function runQuantize(
  input: string,
  output: string,
  flags: QuantizeFlags,
): Promise<number> {
  asUsage(() => containerOf(output, [flags.type, ...flags.tensorType.map(({ type }) => type)]));
  checkOutput(output);
  const { path, flag } = await findWeights(input, flags.part);
  const bar = new ProgressBar();
  using stop = new StopSignals();
  const started = performance.now();
  const seconds = () => (performance.now() - started) / 1000;
  try {
    const { bytes, sourceBytes, formats, notes } = await quantize(path, output, {
      type: flags.type,
      rules: flags.tensorType,
      scales: flags.scales,
      signal: stop.signal,
      onProgress: ({ fraction }) => {
        const left = seconds() > 1 && fraction > 0
          ? `${duration(seconds() / fraction * (1 - fraction))} left`
          : "";
        bar.show(fraction, `${Math.floor(100 * fraction)} %`, left);
      },
    });
    bar.clear();
    for (const note of notes) tell(note);
    const words = formats.map(([format, tensors]) => `${tensors} ${format}`).join(", ");
    tell(
      `${gigabytes(bytes)} instead of ${gigabytes(sourceBytes)} in ${
        duration(seconds())
      }: ${words}`,
    );
    if (flag) tell(`Use it with --model-path ${input} ${flag} ${output}`);
    print(output);
    return 0;
  } catch (error) {
    if (!isWriteError(error)) throw error;
    throw new Error(`Cannot write ${output}: ${describeWriteError(error)}`, { cause: error });
  } finally {
    bar.clear();
  }
}

/** The weights that are meant, and the flag that takes their copy where they are part of a model's folder. */
async function findWeights(
  input: string,
  part: string,
): Promise<{ readonly path: string; readonly flag?: string }> {
  const isFolder = await Deno.stat(input).then((stat) => stat.isDirectory, () => false);
  const isModel = await hasIndex(input);
  if (isFolder && !isModel) return { path: input };
  const path = await localModel(input);
  if ((await Deno.stat(path)).isFile) return { path };
  const flag = `--${part.replaceAll("_", "-")}`;
  return { path: await componentFolder(await readModelIndex(path), part), flag };
}
