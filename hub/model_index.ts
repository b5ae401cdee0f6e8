/** `model_index.json`, as diffusers' `save_pretrained` writes it: the pipeline of a folder, and its components. */

import { describeFileError, exists, fileInfo, join } from "../platform/mod.ts";
import { excerpt, isObject, type JsonObject, readJsonObject } from "./json_file.ts";

interface ComponentEntry {
  /** The Python package or pipeline module that has the class, such as `transformers`. */
  readonly library: string;
  readonly className: string;
  readonly folder: string;
}

export interface ModelIndex {
  readonly folder: string;
  /** `_class_name`: the pipeline. Whether it is a known one is for the caller to say. */
  readonly className: string;
  /** The components by our names, in file order, without those that are null in the file. */
  readonly components: ReadonlyMap<string, ComponentEntry>;
  /** Every other key, such as `is_distilled`. */
  readonly settings: JsonObject;
}

export const MODEL_INDEX = "model_index.json";

/** The index of pipelines that diffusers puts together of blocks; folders of others may have it too. */
const MODULAR_INDEX = "modular_model_index.json";

export const MODEL_INDEXES: readonly string[] = [MODEL_INDEX, MODULAR_INDEX];

/** Whether a folder holds a model of several components. */
export async function hasIndex(folder: string): Promise<boolean> {
  const found = await Promise.all(MODEL_INDEXES.map((name) => exists(join(folder, name))));
  return found.includes(true);
}

/** Far more than any pipeline needs. */
const MAX_BYTES = 2 ** 20;

export async function readModelIndex(folder: string): Promise<ModelIndex> {
  const own = join(folder, MODEL_INDEX);
  const modularPath = join(folder, MODULAR_INDEX);
  const path = !await exists(own) && await exists(modularPath) ? modularPath : own;
  const json = await readJsonObject(path, { maxBytes: MAX_BYTES });
  const { _class_name: className, _diffusers_version: version, ...rest } = json;
  if (typeof className !== "string" || className === "") {
    throw new TypeError(
      `Cannot read ${path}: _class_name must be the name of a pipeline class, and it is ` +
        excerpt(className),
    );
  }
  if (version !== undefined && typeof version !== "string") {
    throw new TypeError(
      `Cannot read ${path}: _diffusers_version must be a text, and it is ${excerpt(version)}`,
    );
  }
  const components = new Map<string, ComponentEntry>();
  const settings: [string, JsonObject[string]][] = [];
  for (const [key, value] of Object.entries(rest)) {
    const entry = readEntry(path, key, value);
    if (entry === undefined) settings.push([key, value]);
    else if (entry !== null) components.set(OUR_NAMES[key] ?? key, entry);
  }
  takeSecondEncoder(components);
  // What prepares texts and pictures together has the tokenizer's files.
  const processor = components.get("processor");
  if (processor && !components.has("tokenizer")) components.set("tokenizer", processor);
  const modular = await modularClass(folder);
  if (modular !== undefined) settings.push(["modular_class_name", modular]);
  return {
    folder,
    className,
    components,
    settings: Object.fromEntries(settings),
  };
}

/** What we call components that the file names otherwise. */
const OUR_NAMES: Readonly<Record<string, string>> = {
  unet: "transformer",
  unconditional_transformer: "transformer_2",
  text_conditioner: "text_encoder_2",
  t5_tokenizer: "tokenizer_2",
};

/** Folders that repositories may have for a component. */
export function foldersOf(component: string): string[] {
  const others = Object.entries(OUR_NAMES).filter(([, own]) => own === component);
  return [component, ...others.map(([name]) => name)];
}

/** A model whose only text encoder is the second, as SDXL's refiner, has it as its first. */
export function takeSecondEncoder<Part>(components: Map<string, Part>): void {
  if (components.has("text_encoder")) return;
  for (const name of ["text_encoder", "tokenizer"]) {
    const second = components.get(`${name}_2`);
    if (second === undefined) continue;
    components.set(name, second);
    components.delete(`${name}_2`);
  }
}

/** The class that `modular_model_index.json` names, where a folder has that file too. */
async function modularClass(folder: string): Promise<string | undefined> {
  const path = join(folder, MODULAR_INDEX);
  const isThere = await exists(path);
  const { _class_name: own } = isThere ? await readJsonObject(path, { maxBytes: MAX_BYTES }) : {};
  return typeof own === "string" ? own : undefined;
}

/** The folder of one component, such as `vae`, which must be there and of one of the classes. */
export async function componentFolder(
  index: ModelIndex,
  name: string,
  classes?: readonly string[],
): Promise<string> {
  const entry = index.components.get(name);
  const path = join(index.folder, MODEL_INDEX);
  if (entry === undefined) {
    const known = [...index.components.keys()].join(", ") || "none";
    throw new Error(
      `Cannot load component ${JSON.stringify(name)}: ${path} does not name it; it names ${known}`,
    );
  }
  if (classes && !classes.includes(entry.className)) {
    throw new TypeError(
      `Cannot load component ${JSON.stringify(name)}: ${path} names the class ` +
        `${JSON.stringify(entry.className.slice(0, 100))}; this program knows ${
          classes.join(", ")
        }`,
    );
  }
  const folder = join(index.folder, entry.folder);
  let reason: string;
  try {
    if ((await fileInfo(folder)).isDirectory) return folder;
    reason = "it is not a folder";
  } catch (error) {
    reason = describeFileError(error);
  }
  throw new Error(
    `Cannot load component ${
      JSON.stringify(name)
    } (${entry.className}) from ${folder}: ${reason}, ` +
      "though model_index.json names it; the download may be incomplete",
  );
}

/** Reads a pair of library and class: null for a component that is omitted, undefined for any other setting. */
function readEntry(
  path: string,
  key: string,
  value: JsonObject[string],
): ComponentEntry | null | undefined {
  if (!Array.isArray(value)) return undefined;
  // Modular pipelines say where a component comes from, too: from a folder of another name if not of this repository.
  const source = value.length === 2 ? {} : value[2];
  if (!isObject(source)) return undefined;
  if ((source["subfolder"] ?? key) !== key) return null;
  const [library, className] = value[0] === null && Array.isArray(source["type_hint"])
    ? source["type_hint"]
    : value;
  if (library === null && className === null) return null;
  if (typeof library !== "string" && typeof className !== "string") return undefined;
  if (typeof library !== "string" || typeof className !== "string") {
    throw new TypeError(
      `Cannot read ${path}: component ${excerpt(key)} must have a library and a class, ` +
        `and it has ${excerpt(value)}`,
    );
  }
  if (!/^\w[\w.-]*$/.test(key)) {
    throw new TypeError(
      `Cannot read ${path}: component name ${excerpt(key)} is not a plain folder name`,
    );
  }
  return { library, className, folder: key };
}

/** Parts of a model that may lie elsewhere, and the components that they are in folders of models. */
export const PART_COMPONENTS = {
  transformer: "transformer",
  transformer2: "transformer_2",
  imageEncoder: "image_encoder",
  mmproj: "vision_tower",
  textEncoder: "text_encoder",
  textEncoder2: "text_encoder_2",
  textEncoder3: "text_encoder_3",
  vae: "vae",
  connectors: "connectors",
  audioVae: "audio_vae",
  vocoder: "vocoder",
  latentUpsampler: "latent_upsampler",
  tinyDecoder: "tiny_decoder",
  controlnet: "controlnet",
  // As diffusers names the folders of several.
  controlnet2: "controlnet_1",
  controlnet3: "controlnet_2",
  controlnet4: "controlnet_3",
  ipAdapter: "ip_adapter",
  ipAdapter2: "ip_adapter_1",
  ipAdapter3: "ip_adapter_2",
  ipAdapter4: "ip_adapter_3",
  refiner: "refiner",
  upscaler: "upscaler",
  frameInterpolator: "frame_interpolator",
  tokenizer: "tokenizer",
  tokenizer2: "tokenizer_2",
  tokenizer3: "tokenizer_3",
} as const;

/** In place of a part's path: the model does without it. */
export const NO_PART = "none";

export type PartName = keyof typeof PART_COMPONENTS;

/** Parts that are ControlNets, in the order in which pictures of requests go to them. */
export const CONTROLNET_PARTS = [
  ...["controlnet", "controlnet2", "controlnet3", "controlnet4"] as const,
] as const satisfies readonly PartName[];

/** Parts that are IP-Adapters, in the order in which reference images of requests go to them. */
export const IP_ADAPTER_PARTS = [
  ...["ipAdapter", "ipAdapter2", "ipAdapter3", "ipAdapter4"] as const,
] as const satisfies readonly PartName[];

/** What a part is, of several of a kind the first. */
export function kindOfPart(part: PartName): PartName {
  return [CONTROLNET_PARTS, IP_ADAPTER_PARTS]
    .find((parts: readonly PartName[]) => parts.includes(part))?.[0] ?? part;
}
