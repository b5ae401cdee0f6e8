/** `denoise inspect`. */
import { FIRST_BYTES, mediaKind } from "../hub/first_bytes.ts";
import { hasIndex } from "../hub/model_index.ts";
import { bundledLoraFiles } from "../models/lora/bundled.ts";
import { readLora } from "../models/lora/read_lora.ts";
import { ENCODER_WIDTHS } from "../models/textual_inversion/read_embedding.ts";
import { LoraError, openPipeline } from "../models/mod.ts";
import {
  inspect,
  type InspectedComponent,
  type InspectedLora,
  type Inspection,
} from "../models/file_tools.ts";
import { type ImageFileInfo, inspectImageFile, recipeFields } from "../generation/mod.ts";
import { escapeControls } from "../generation/texts.ts";
import { sniffImage } from "../media/decode.ts";
import { describeFailure, spellParts, UsageError } from "./failure.ts";
import type { InspectFlags } from "./flags.ts";
import { localModel } from "./model_options.ts";
import { columns, gigabytes, print } from "./print.ts";

interface LoraFit {
  /** The model as the command line names it. */
  readonly model: string;
  readonly fits: boolean;
  readonly modules?: number;
  readonly unmatchedKeys?: readonly string[];
  readonly problem?: string;
}

/** Says what files or folders are, without a GPU; JSON of several is a list. */
export async function runInspect(
  inputs: readonly [string, ...string[]],
  flags: InspectFlags,
): Promise<number> {
  const isList = inputs.length > 1;
  const list: unknown[] = [];
  let status = 0;
  for (const [index, input] of inputs.entries()) {
    try {
      if (await isImage(input)) {
        const image = await inspectImageFile(input);
        list.push(imageJson(input, image));
        if (!flags.json) print(`${index > 0 ? "\n" : ""}${describeImage(input, image)}`);
        continue;
      }
      const { found, fit } = await lookInto(input, flags);
      if (!found.isUsable || fit?.fits === false) status = 1;
      list.push({ ...found, ...(fit && { fit }) });
      if (!flags.json) print(`${index > 0 ? "\n" : ""}${describe(input, found, fit)}`);
    } catch (error) {
      if (!isList) throw error;
      const problem = describeFailure(error).sentence;
      status = 1;
      list.push({ path: input, problem });
      if (!flags.json) print(`${index > 0 ? "\n" : ""}${input}: ${problem}`);
    }
  }
  if (flags.json) print(JSON.stringify(isList ? list : list[0], undefined, 2));
  return status;
}

async function lookInto(
  input: string,
  { against: modelPath }: InspectFlags,
): Promise<{ readonly found: Inspection; readonly fit: LoraFit | undefined }> {
  const { problem, ...rest } = await inspect(await findPath(input));
  const found = problem === undefined ? rest : { ...rest, problem: spellParts(problem) };
  const isHeld = found.lora && modelPath !== undefined;
  return { found, fit: isHeld ? await fitOf(found.path, modelPath) : undefined };
}

/** Whether a file is an image that can be read. @throws {UsageError} for other media, which hold no model */
async function isImage(path: string): Promise<boolean> {
  const head = await firstBytes(path);
  try {
    sniffImage(head);
    return true;
  } catch {
    const kind = mediaKind(head);
    if (kind === undefined) return false;
    const advice = /video$|sound$/.test(kind)
      ? `denoise generate --${kind.endsWith("video") ? "video" : "audio"} takes it`
      : kind.endsWith("image")
      ? "no command reads such images; convert it to PNG"
      : `no command takes a ${kind.split(" ").at(-1)}`;
    throw new UsageError(
      `Cannot inspect ${path}: it is ${kind}, and inspect reads models, LoRAs and PNG, JPEG, WebP, GIF and BMP images; ${advice}`,
    );
  }
}

/** The beginning of a file; no bytes where it cannot be read. */
async function firstBytes(path: string): Promise<Uint8Array> {
  const head = new Uint8Array(FIRST_BYTES);
  try {
    using file = await Deno.open(path);
    return head.subarray(0, await file.read(head) ?? 0);
  } catch {
    return head.subarray(0, 0);
  }
}

function imageJson(path: string, { format, width, height, recipe }: ImageFileInfo) {
  return {
    path,
    kind: "image",
    format,
    width,
    height,
    made_by: recipe?.source ?? null,
    recipe: recipe ? recipeFields(recipe) : null,
    unused: recipe?.unused ?? [],
  };
}

export function describeImage(
  input: string,
  { format, width, height, recipe }: ImageFileInfo,
): string {
  const title = `${input}: ${IMAGE_WORDS[format]} of ${width}x${height}`;
  if (!recipe) return `${title}, which does not say how it was made`;
  const rows = Object.entries(recipeFields(recipe)).map(([name, value]) => [
    name.replaceAll("_", " "),
    typeof value === "string" ? value : JSON.stringify(value),
  ]);
  return [
    `${title}, with a recipe as ${recipe.source} writes it`,
    "",
    columns(rows),
    ...(recipe.unused.length > 0
      ? ["", `Not used here: ${recipe.unused.map(escapeControls).join("; ")}`]
      : []),
  ].join("\n");
}

const IMAGE_WORDS = {
  png: "a PNG image",
  jpeg: "a JPEG image",
  webp: "a WebP image",
  gif: "a GIF image",
  bmp: "a BMP image",
};

/** A folder without an index is looked at as it is; all else is found as models are, or is a LoRA of the bundled model. */
async function findPath(input: string): Promise<string> {
  const stat = await Deno.stat(input).catch(() => undefined);
  const isModel = await hasIndex(input);
  if (stat?.isFile || (stat?.isDirectory && !isModel)) return input;
  if (
    /^[^:]*\.(?:png|jpe?g|webp|gif|bmp|mp4|mov|mkv|webm|avi|wav|mp3|flac|ogg|m4a|pdf|safetensors|gguf|ckpt|pth?|bin)$/i
      .test(input)
  ) {
    throw new Deno.errors.NotFound(
      `Cannot inspect ${input}: there is no such file; check its path`,
    );
  }
  return bundledLoraFiles()[input] ?? await localModel(input);
}

async function fitOf(path: string, model: string): Promise<LoraFit> {
  using pipeline = await openPipeline(await localModel(model));
  try {
    const { changes, unmatchedKeys } = await readLora(path, pipeline.adaptable);
    return { model, fits: true, modules: changes.length, unmatchedKeys };
  } catch (error) {
    if (!(error instanceof LoraError)) throw error;
    return { model, fits: false, problem: error.message };
  }
}

export function describe(input: string, found: Inspection, fit?: LoraFit): string {
  const { components, lora, problem, names } = found;
  const lines = [`${input}: ${titleOf(found)}, ${gigabytes(found.bytes)}`];
  if (components.length > 0) lines.push("", tableOf(components));
  if (lora) lines.push("", ...loraLines(lora));
  if (names) {
    lines.push(
      "",
      `Its tensors are called ${names.map((name) => `"${name}"`).join(", ")} …`,
    );
  }
  if (fit) lines.push("", fitLine(fit));
  // What it holds was said already.
  if (problem !== undefined) lines.push("", whatIsMissing(problem) ?? problem);
  return lines.join("\n");
}

/** The second half of "Cannot open "x": it holds …, and the … are missing". */
function whatIsMissing(problem: string): string | undefined {
  const holds = problem.indexOf('": it holds ');
  const and = problem.indexOf(", and the ", holds);
  if (holds < 0 || and < 0 || !problem.includes("missing", and)) return undefined;
  return `The ${problem.slice(and + ", and the ".length)}`;
}

function titleOf({ kind, family, pipeline, components, lora, embedding }: Inspection): string {
  if (embedding) {
    const vectors = embedding.map(({ width, count }) =>
      `${count} ${count === 1 ? "vector" : "vectors"} for ${ENCODER_WIDTHS.get(width)}`
    );
    return `an embedding: ${vectors.join(", ")}`;
  }
  if (lora) return lora.family ? `a LoRA for ${lora.family}` : "a LoRA for an unknown model";
  if (kind === "model") return family ? `a ${family} model (${pipeline})` : `a model (${pipeline})`;
  if (kind === "unknown") return "weights of nothing that this program knows";
  return components.map(({ holds }) => holds).join(", ");
}

function tableOf(components: readonly InspectedComponent[]): string {
  const rows = components.map((component) => [
    component.component.replaceAll("_", " "),
    component.formats.map(({ format, bytes }) => `${format} ${gigabytes(bytes)}`).slice(0, 4)
      .join(", "),
    countOf(component.parameters),
    gigabytes(component.bytes),
    component.hasUnreadFormats ? "not read" : gigabytes(component.deviceBytes),
  ]);
  return columns([["part", "stored as", "numbers", "on disk", "on the GPU"], ...rows]);
}

function countOf(numbers: number): string {
  return numbers >= 1e8
    ? `${(numbers / 1e9).toFixed(1)} billion`
    : `${(numbers / 1e6).toFixed(1)} million`;
}

function loraLines(lora: InspectedLora): string[] {
  const { dialect, modules, ranks, formats, refused, unknownKeys, words, notes } = lora;
  const where = Object.entries(modules).map(([part, count]) => `${count} of the ${part}`);
  return [
    ["naming", dialect],
    ["modules", where.join(", ") || "none"],
    ["rank", ranks.slice(0, 6).join(", ") || "none"],
    ["stored as", formats.join(", ")],
    ...(words.length > 0 ? [["embeddings", words.join(", ")]] : []),
    ...Object.entries(notes),
    ...(refused.length > 0 ? [["not applied", refused.join(", ")]] : []),
    ...(unknownKeys.length > 0
      ? [["not known", `${unknownKeys.length} keys, such as "${unknownKeys[0]!.slice(0, 80)}"`]]
      : []),
  ].map(([name, value]) => `${name!.padEnd(10)} ${value}`);
}

function fitLine({ model, modules, unmatchedKeys = [], problem }: LoraFit): string {
  if (problem !== undefined) return problem;
  const rest = unmatchedKeys.length > 0
    ? `; ${unmatchedKeys.length} of its keys lead to nothing`
    : "";
  return `It fits ${model}: ${modules} modules are changed${rest}`;
}
