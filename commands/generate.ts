/** `denoise generate`. */

import { join } from "node:path";
import { Client } from "../client/mod.ts";
import { loadModel, type LoadModelOptions } from "../mod.ts";
import { escapeControls } from "../generation/texts.ts";
import { splitLoras } from "../generation/recipe.ts";
import { hasOpenBrace } from "../generation/wildcards.ts";
import { describeFileError } from "../platform/mod.ts";
import { UsageError } from "./failure.ts";
import { generateRemotely } from "./client/remote_generate.ts";
import { type GenerateFlags, NEAR_SERVER } from "./flags.ts";
import { fillFromFile } from "./from_file.ts";
import { mediaOf, present, readOptions, seedsOf } from "./generate_flags.ts";
import {
  type CommandRequest,
  type CommandWatch,
  makeResults,
  openWatch,
  tellToy,
  tellUnused,
} from "./make_results.ts";
import { deviceOptions, flagsOfModels, partsOf } from "./model_options.ts";
import { checkOutput, nameForPrompt, outputPaths } from "./output_name.ts";
import { StopSignals } from "./stop_signals.ts";
import { loadingBar } from "./progress_bar.ts";
import { tell } from "./print.ts";

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
  given: GenerateFlags,
  load: typeof loadModel = loadModel,
): Promise<number> {
  using stop = new StopSignals();
  const watch = { ...openWatch(given.preview), signal: stop.signal };
  const { bar, onNote, signal } = watch;
  const request = await readRequest(given, watch);
  const { flags, media, name } = request;
  try {
    const isEdit = flags.image !== undefined || flags.video !== undefined;
    if (flags.url === undefined && !isEdit) tellToy(flags.modelPath, watch, request.options.prompt);
    const server = await findServer(flags);
    if (server) {
      if (server.model !== undefined) {
        onNote(`Note: drawn by the server at ${NEAR_SERVER}; --no-server loads the model here`);
      }
      const what = await generateRemotely({ ...server, flags, media, name, ...watch });
      tell(`Generated ${what}`);
      return 0;
    }
    await using model = await load(flags.modelPath, {
      ...deviceOptions(flags),
      parts: partsOf(flags),
      signal,
      ...preparedOf(request),
      onLoadProgress: loadingBar(bar),
      onNote,
    });
    tell((await makeResults(model, request, watch)).words);
    return 0;
  } finally {
    bar.clear();
  }
}

/** Reads flags and input files, before a model is loaded for nothing. */
export async function readRequest(
  given: GenerateFlags,
  watch: Pick<CommandWatch, "onNote">,
): Promise<CommandRequest> {
  const media = mediaOf(given);
  const from = await fillFromFile(given);
  const flags = { ...from.flags, ...askedPrompt(from.flags) };
  const options = await readOptions(flags);
  const name = flags.output ?? defaultPath(flags.outputPath, options.prompt);
  for (const path of outputPaths(name, flags.numOutputs)) checkOutput(path);
  const seeds = seedsOf(flags);
  tellUnused(from.unused, flags, watch);
  tellBraces(flags, watch);
  for (const { name, strength } of splitLoras(flags.prompt ?? "").loras) {
    watch.onNote(
      `Note: the prompt names a LoRA, which is read as words; use --lora ${
        escapeControls(name)
      }:${strength}`,
    );
  }
  return { flags, from, options, seeds, media, name };
}

/** Says which braces of the prompt are drawn as text. */
function tellBraces(
  { prompt = "", wildcards }: GenerateFlags,
  { onNote }: Pick<CommandWatch, "onNote">,
): void {
  const [choice] = /\{[^{}]*\|[^{}]*\}/.exec(prompt) ?? [];
  if (wildcards && hasOpenBrace(prompt)) {
    onNote(
      "Note: nothing closes a { of the prompt, and it is read as text; close it, or write \\{",
    );
  } else if (!wildcards && choice !== undefined) {
    onNote(
      `Note: ${escapeControls(choice)} is read as text; --wildcards chooses one of its words`,
    );
  }
}

type Server = Pick<Parameters<typeof generateRemotely>[0], "client" | "model">;

/** Milliseconds that a server of this machine has to answer. */
const NEAR_MS = 500;

/** The server of `--url`, or one of this machine that has the model as the flags want it. */
async function findServer(flags: GenerateFlags): Promise<Server | undefined> {
  const { url, apiKey, modelPath: model, lora, fragmented, server } = flags;
  if (url !== undefined) return { client: new Client({ url, ...present({ apiKey }) }) };
  if (!server || fragmented || lora !== undefined || flagsOfModels(flags).length > 0) return;
  const client = new Client({ url: NEAR_SERVER, ...present({ apiKey }) });
  const models = await client.models({ signal: AbortSignal.timeout(NEAR_MS) }).catch(() => []);
  const isThere = models.some(({ id, owned_by }) => id === model && owned_by === "denoise");
  return isThere ? { client, model } : undefined;
}

/** What the model gets ready for while it is loaded: a request from text, which is known without its files. */
function preparedOf(
  { flags, media, options }: CommandRequest,
): Pick<LoadModelOptions, "prepared"> {
  const { image, video, mask, reference, lora, taskType, numFrames } = flags;
  if (media === "video" && numFrames === undefined) return {};
  if ([image, video, mask, reference, lora, taskType].some((given) => given !== undefined)) {
    return {};
  }
  const { width, height, guidanceScale } = options;
  return { prepared: present({ width, height, numFrames, guidanceScale }) };
}

/** The prompt of somebody at a terminal who gave none. */
function askedPrompt(flags: GenerateFlags): { prompt?: string } {
  if (flags.prompt !== undefined || !Deno.stdin.isTerminal()) return {};
  const answer = prompt("What shall be made?");
  return answer ? { prompt: answer } : {};
}

/** A path without an ending, which the model may have to decide. */
function defaultPath(folder: string, prompt: string): string {
  const suffix = crypto.randomUUID().slice(0, 8);
  return join(folder || ".", nameForPrompt(prompt, new Date(), suffix));
}
