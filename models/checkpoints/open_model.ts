/** From paths that a user names to the files of a model. */
import {
  describeFileError,
  dirname,
  exists,
  type FileInfo,
  fileInfo,
  isAbsence,
  join,
  listFolder,
  NotFoundError,
} from "../../platform/mod.ts";
import { findSnapshot } from "../../hub/cache.ts";
import { type JsonObject, readJsonObject } from "../../hub/json_file.ts";
import {
  componentFolder,
  hasIndex,
  type ModelIndex,
  NO_PART,
  PART_COMPONENTS,
  type PartName,
  readModelIndex,
  takeSecondEncoder,
} from "../../hub/model_index.ts";
import { isWeightFile } from "../../hub/parts.ts";
import { Checkpoint } from "../../runtime/mod.ts";
import { hasTokenizer, readEmbeddedTokenizer } from "../tokenizers/embedded.ts";
import { loadTokenizer, type Tokenizer } from "../tokenizers/mod.ts";
import type { ComponentFormat, FamilyDefaults, FamilyFiles } from "./component_format.ts";
import { formatsFor, isLora, recognise, type RecognisedComponent } from "./recognise.ts";
import { JoinedSource } from "./layout_view.ts";
import { classOf, readSavedConfig } from "./saved_config.ts";
import { type ForeignPart, MAX_CONFIG_BYTES, ModelFiles } from "./model_files.ts";
import {
  COMPONENTS,
  KINDS,
  type ModelParts,
  PARTS,
  TOKENIZER_PARTS,
  TOKENIZERS,
} from "./model_parts.ts";

interface KnownFiles {
  readonly families: readonly FamilyFiles[];
  readonly optional: readonly ComponentFormat[];
}

const SHOWN_NAMES = 3;

/**
 * Opens a model; only headers and configurations are read. `parts` override the model's own, and `index` is that of a folder
 * where it was read before.
 * @throws {TypeError} when a file holds nothing that is known, or something else than it was named for
 * @throws {Error} when parts are missing, saying which and how to name them
 */
export async function openModelFiles(
  model: string,
  parts: ModelParts = {},
  families: readonly FamilyFiles[] = [],
  optional: readonly ComponentFormat[] = [],
  index?: ModelIndex,
): Promise<ModelFiles> {
  const opened: Checkpoint[] = [];
  try {
    const whole = index ?? await folderIndex(model);
    return await collect(model, whole, parts, { families, optional }, opened);
  } catch (error) {
    for (const checkpoint of opened) checkpoint[Symbol.dispose]();
    throw error;
  }
}

/** The index of a model in a folder; nothing for a model in a file. @throws {NotFoundError} where there is neither */
export async function folderIndex(model: string): Promise<ModelIndex | undefined> {
  const { isFile } = await fileInfo(model).catch((cause) => {
    const message = `Cannot open "${model}": ${describeFileError(cause)}; ` +
      "put it back, or name another model";
    throw isAbsence(cause) ? new NotFoundError(message, { cause }) : new Error(message, { cause });
  });
  return isFile ? undefined : await readModelIndex(model);
}

async function collect(
  model: string,
  whole: ModelIndex | undefined,
  parts: ModelParts,
  known: KnownFiles,
  opened: Checkpoint[],
): Promise<ModelFiles> {
  const found = new Map<string, ForeignPart>();
  const isFile = whole === undefined;
  const inModel = isFile ? openFile(model, known, opened) : [];
  // Models of three text encoders do without the last.
  const omitted = parts.textEncoder3 === NO_PART ? ["text_encoder_3", "tokenizer_3"] : [];
  for (const component of inModel) {
    if (omitted.includes(component.format.component)) continue;
    found.set(component.format.component, toPart(component, model, opened[0]!));
  }
  for (const part of PARTS) {
    const name = PART_COMPONENTS[part];
    const mayBeBeside = COMPONENTS[part].isBeside && !isFile && !found.has(name);
    if (omitted.includes(name)) continue;
    const path = parts[part] ?? (mayBeBeside ? await beside(model, name) : undefined);
    if (path !== undefined) found.set(name, await openPart(part, path, known, opened));
  }
  const adapter = found.get("ip_adapter");
  const eyes = adapter && !found.has("image_encoder") ? await encoderBeside(adapter) : undefined;
  if (eyes) found.set("image_encoder", await openPart("imageEncoder", eyes, known, opened));
  const named = await namedTokenizers(parts);
  const options = (index: ModelIndex | undefined) => {
    const tokenizers = new Map(named);
    for (const part of TOKENIZER_PARTS) {
      const name = PART_COMPONENTS[part];
      const encoder = found.get(PART_COMPONENTS[TOKENIZERS[part].encoder]);
      const embedded = index?.components.has(name) ? undefined : encoder?.readTokenizer;
      if (embedded && !tokenizers.has(name)) tokenizers.set(name, embedded);
    }
    const noise = noiseOf(parts);
    return { path: model, parts: found, opened, ...(index ? { index } : {}), tokenizers, noise };
  };
  const addTower = async (className: string) => {
    const sees = known.families.some(({ seeingClasses = [] }) => seeingClasses.includes(className));
    await addVisionTower(found, sees, known, opened);
  };
  if (whole) {
    const components = new Map([...whole.components].filter(([name]) => !omitted.includes(name)));
    const index = { ...whole, components };
    await addTower(index.className);
    return new ModelFiles({ ...options(index), ...index });
  }
  const transformer = found.get("transformer");
  if (!transformer) {
    throw new Error(
      `Cannot open "${model}": it holds ${listed(inModel.map(({ format }) => format.name))}, ` +
        "and no transformer; give the file of the transformer, and this one as the part that it is",
    );
  }
  const family = familyOf(transformer, known.families)!;
  const hasSecond = found.has("transformer_2");
  const { config, path, file } = transformer;
  const defaults = family.defaults(config, path, hasSecond, file);
  const vae = found.get("vae");
  if (vae) found.set("vae", { ...vae, config: { ...vae.config, ...defaults.vae } });
  await addTower(defaults.className);
  const missing = missingParts(found, named, defaults);
  const index = missing.length === 0 ? undefined : await cachedIndex(defaults);
  if (missing.length > 0 && !index) throw missingError(model, inModel, missing, defaults);
  if (defaults.lacksFirstEncoder) {
    takeSecondEncoder(found);
    takeSecondEncoder(named);
  }
  return new ModelFiles({ ...options(index), ...defaults });
}

/** Gives a text encoder the vision tower that was named; or, where it needs one, the tower of a file beside it. */
async function addVisionTower(
  found: Map<string, ForeignPart>,
  isNeeded: boolean,
  known: KnownFiles,
  opened: Checkpoint[],
): Promise<void> {
  const encoder = found.get("text_encoder");
  const isBlind = encoder?.config["vision_config"] === null;
  const named = found.get("vision_tower");
  if (named && !isBlind) {
    throw new TypeError(
      `Cannot use "${named.path}" as the vision tower: ${
        encoder
          ? "the text encoder has one of its own, or sees nothing"
          : "name the file of the language model that it belongs to with parts.textEncoder"
      }`,
    );
  }
  if (!isBlind || !named && !isNeeded) return;
  const path = named ? undefined : await towerBeside(encoder.path);
  const tower = path === undefined ? named : await openPart("mmproj", path, known, opened);
  if (!tower) return;
  found.delete("vision_tower");
  found.set("text_encoder", {
    ...encoder,
    config: { ...encoder.config, vision_config: tower.config },
    open: () => new JoinedSource(encoder.open(), tower.open()),
  });
}

/** Where an IP-Adapter's repository has image encoders, as seen from its file. */
const ENCODER_PLACES = [
  ...["image_encoder", "../image_encoder", "../models/image_encoder"],
  "../sdxl_models/image_encoder",
];

/** The folder of the image encoder that an IP-Adapter sees by, or of another one, which is refused with its sizes. */
async function encoderBeside({ path, config }: ForeignPart): Promise<string | undefined> {
  const folders: string[] = [];
  for (const place of ENCODER_PLACES) {
    const folder = join(dirname(path), place);
    const file = join(folder, "config.json");
    if (!await exists(file)) continue;
    const own = await readJsonObject(file, { maxBytes: MAX_CONFIG_BYTES });
    if (own[String(config["sees"])] === config["image_dim"]) return folder;
    folders.push(folder);
  }
  return folders[0];
}

async function towerBeside(path: string): Promise<string | undefined> {
  const folder = dirname(path);
  const towers: string[] = [];
  for (const name of await listFolder(folder)) {
    if (/mmproj/i.test(name) && /\.gguf$/i.test(name)) towers.push(join(folder, name));
  }
  return towers.length === 1 ? towers[0] : undefined;
}

function openFile(
  path: string,
  { families, optional }: KnownFiles,
  opened: Checkpoint[],
): RecognisedComponent[] {
  const checkpoint = Checkpoint.open(path);
  opened.push(checkpoint);
  const formats = formatsFor(checkpoint, families, optional);
  const components = recognise(checkpoint, formats);
  if (components.length > 0) return components;
  const names = [...checkpoint.names];
  if (names.some((name) => name.startsWith("lllite_"))) {
    throw new TypeError(
      `Cannot use "${path}": it is a ControlNet-LLLite of another model than SDXL; name a ControlNet or a T2I-Adapter`,
    );
  }
  if (isLora(names)) {
    throw new TypeError(
      `Cannot open "${path}" as a model: it is a LoRA; name it as one, beside the model that it is for`,
    );
  }
  const words = [...new Set(formats.map(({ name }) => name))];
  throw new TypeError(
    `Cannot tell what "${path}" holds: its ${names.length} tensors, such as ${
      names.slice(0, SHOWN_NAMES).map((name) => `"${name.slice(0, 100)}"`).join(", ") || "none"
    }, are of no model that this program knows; it knows ${listed(words)}`,
  );
}

function toPart(
  { format, tensors }: RecognisedComponent,
  path: string,
  checkpoint: Checkpoint,
): ForeignPart {
  const { className } = format;
  const embedded = () => Promise.resolve(readEmbeddedTokenizer(checkpoint));
  const readTokenizer = format.tokenizer ?? (hasTokenizer(checkpoint) ? embedded : undefined);
  return {
    className,
    path,
    config: savedConfig(checkpoint, className) ?? format.config(tensors, checkpoint.metadata),
    open: () => tensors,
    file: checkpoint,
    ...(readTokenizer ? { readTokenizer } : {}),
  };
}

/** An optional component that lies in a model's folder: `tiny_decoder.safetensors`, `.pth` or a folder `tiny_decoder`. */
async function beside(model: string, name: string): Promise<string | undefined> {
  for (
    const path of [`${name}.safetensors`, `${name}.pth`, name].map((each) => join(model, each))
  ) {
    if (await exists(path)) return path;
  }
  return undefined;
}

async function openPart(
  part: keyof typeof COMPONENTS,
  path: string,
  known: KnownFiles,
  opened: Checkpoint[],
): Promise<ForeignPart> {
  const { words } = COMPONENTS[part];
  const name = PART_COMPONENTS[part];
  const stat = await statPart(path, part, words);
  if (stat.isFile) {
    const components = openFile(path, known, opened);
    const kind = KINDS[part] ?? name;
    const component = components.find(({ format }) => format.component === kind);
    if (component) return toPart(component, path, opened.at(-1)!);
    const held = listed(components.map(({ format }) => format.name));
    throw new TypeError(`Cannot use "${path}" as the ${words}: it holds ${held}`);
  }
  const index = await hasIndex(path) ? await readModelIndex(path) : undefined;
  const own = index?.components.has(name) || part === "transformer2" ? name : KINDS[part] ?? name;
  const folder = index ? await componentFolder(index, own) : path;
  const configPath = join(folder, "config.json");
  const config = await readJsonObject(configPath, { maxBytes: MAX_CONFIG_BYTES });
  return {
    className: classOf(config) ?? index?.components.get(name)?.className ??
      "component of an unnamed class",
    path: configPath,
    config,
    open: () => {
      const checkpoint = Checkpoint.open(folder);
      opened.push(checkpoint);
      return checkpoint;
    },
  };
}

/** The `config.json` that a file keeps of the component that it was made from, where it is of this class. */
function savedConfig(checkpoint: Checkpoint, className: string): JsonObject | undefined {
  const config = readSavedConfig(checkpoint);
  return config && classOf(config) === className ? config : undefined;
}

/** Keys of `scheduler_config.json`. */
function noiseOf({ predictionType, rescaleBetasZeroSnr }: ModelParts): JsonObject {
  return {
    ...(predictionType !== undefined && { prediction_type: predictionType }),
    ...(rescaleBetasZeroSnr && { rescale_betas_zero_snr: true, timestep_spacing: "trailing" }),
  };
}

async function namedTokenizers(parts: ModelParts) {
  const named = new Map<string, () => Promise<Tokenizer>>();
  for (const part of TOKENIZER_PARTS) {
    const path = parts[part];
    const name = PART_COMPONENTS[part];
    if (path !== undefined) named.set(name, () => openTokenizer(path, name, part));
  }
  const { tokenizer: whole } = parts;
  if (whole !== undefined && await hasIndex(whole)) {
    const { components } = await readModelIndex(whole);
    for (const name of ["tokenizer_2", "tokenizer_3"]) {
      if (named.has(name) || !components.has(name)) continue;
      named.set(name, () => openTokenizer(whole, name, "tokenizer"));
    }
  }
  return named;
}

async function openTokenizer(
  path: string,
  name: string,
  part: keyof typeof TOKENIZERS,
): Promise<Tokenizer> {
  const { isFile } = await statPart(path, part, "tokenizer");
  if (isFile && !isWeightFile(path)) return await loadTokenizer(dirname(path));
  if (isFile) {
    using checkpoint = Checkpoint.open(path);
    if (hasTokenizer(checkpoint)) return readEmbeddedTokenizer(checkpoint);
    throw new TypeError(`Cannot use "${path}" as the tokenizer: it holds none`);
  }
  const isModel = await hasIndex(path);
  const folder = isModel ? await componentFolder(await readModelIndex(path), name) : path;
  return await loadTokenizer(folder);
}

function familyOf(
  { className }: ForeignPart,
  families: readonly FamilyFiles[],
): FamilyFiles | undefined {
  return families.find(({ formats }) =>
    formats.some((format) => format.component === "transformer" && format.className === className)
  );
}

function missingParts(
  found: ReadonlyMap<string, ForeignPart>,
  tokenizers: ReadonlyMap<string, unknown>,
  { needs = [], lacksFirstEncoder }: FamilyDefaults,
): { readonly part: PartName; readonly words: string }[] {
  const isNeeded = (part: keyof typeof COMPONENTS) =>
    COMPONENTS[part].isNeeded && !(lacksFirstEncoder && part === "textEncoder") ||
    needs.some((need) => need === PART_COMPONENTS[part]);
  const missing = PARTS.filter((part) => !found.has(PART_COMPONENTS[part]) && isNeeded(part))
    .map((part) => ({ part, words: COMPONENTS[part].words }));
  const untold = TOKENIZER_PARTS
    .map((part) => ({ part, ...TOKENIZERS[part] }))
    .filter(({ part, encoder }) =>
      (isNeeded(encoder) || found.has(PART_COMPONENTS[encoder])) &&
      !tokenizers.has(PART_COMPONENTS[part]) &&
      !found.get(PART_COMPONENTS[encoder])?.readTokenizer
    );
  return [...missing, ...untold];
}

async function cachedIndex({ repositories }: FamilyDefaults): Promise<ModelIndex | undefined> {
  for (const id of repositories) {
    try {
      return await readModelIndex(await findSnapshot(id));
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error;
    }
  }
  return undefined;
}

function missingError(
  model: string,
  inModel: readonly RecognisedComponent[],
  missing: ReturnType<typeof missingParts>,
  { repositories: [repository] }: FamilyDefaults,
): Error {
  const example = repository === undefined ? "" : `, such as ${repository}`;
  return new Error(
    `Cannot open "${model}": it holds ${
      listed(inModel.map(({ format }) => format.name))
    }, and the ${listed(missing.map(({ words }) => words))} ${
      missing.length === 1 ? "is" : "are"
    } missing; name ${missing.length === 1 ? "it" : "each"} with ${
      listed(missing.map(({ part }) => `parts.${part}`))
    }: a path or a hub id${example}`,
  );
}

/** `a, b and c`. */
function listed(all: readonly string[]): string {
  // A file may be the same part of models that call it differently.
  const words = [...new Set(all)];
  if (words.length === 0) return "nothing";
  return words.length === 1 ? words[0]! : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

async function statPart(path: string, part: PartName, words: string): Promise<FileInfo> {
  try {
    return await fileInfo(path);
  } catch (cause) {
    throw new Error(
      `Cannot open the ${words} "${path}" that parts.${part} names: ${describeFileError(cause)}`,
      { cause },
    );
  }
}
