/** What a file or folder is, by its headers and configurations; nothing is computed. */

import { join } from "node:path";
import { componentFolder, hasIndex, readModelIndex } from "../../hub/model_index.ts";
import { type JsonObject, readJsonObject } from "../../hub/json_file.ts";
import { isWeightFile, partOf } from "../../hub/parts.ts";
import {
  blockBytes,
  bytesPerElement,
  Checkpoint,
  elementCount,
  isWeightFormat,
  storedBytes,
  type StoredTensor,
  type TensorSource,
} from "../../runtime/mod.ts";
import { formatsFor, isLora, recognise } from "../checkpoints/recognise.ts";
import { classOf } from "../checkpoints/saved_config.ts";
import type { ComponentFormat, FamilyFiles } from "../checkpoints/component_format.ts";
import { openModelFiles } from "../checkpoints/open_model.ts";
import { inspectEmbedding, type LearntVectors } from "../textual_inversion/read_embedding.ts";
import { type InspectedLora, inspectLora } from "./lora.ts";
import { storageOf } from "../../runtime/weights/storage.ts";

export type { InspectedLora } from "./lora.ts";

/** What was found. A JSON value. */
export interface Inspection {
  readonly path: string;
  readonly kind: "model" | "weights" | "lora" | "embedding" | "unknown";
  /** The family, such as `Z-Image`; nothing where it is of none that the program knows. */
  readonly family?: string;
  /** The pipeline's class, of a model's folder. */
  readonly pipeline?: string;
  /** Of all tensors, in files. */
  readonly bytes: number;
  readonly components: readonly InspectedComponent[];
  readonly lora?: InspectedLora;
  /** Numbers of vectors by their widths, of a textual inversion. */
  readonly embedding?: readonly LearntVectors[];
  /** Whether it can be used, if only together with other parts. */
  readonly isUsable: boolean;
  /** Why it cannot be used as it is, with what to do; a line for each part. */
  readonly problem?: string;
  readonly names?: readonly string[];
}

export interface InspectedFamily {
  readonly name: string;
  readonly classNames: readonly string[];
  readonly files: FamilyFiles;
}

/** What judges images of Stable Diffusion; no pipeline here has one. */
const SAFETY_CHECKER = "StableDiffusionSafetyChecker";

const WEIGHTLESS = /Tokenizer|Processor|Scheduler|Extractor/;

const SHOWN_NAMES = 5;

/** Looks at a file of weights, a LoRA, a component's folder or a model's. */
export async function inspectPath(
  path: string,
  families: readonly InspectedFamily[],
  optional: readonly ComponentFormat[],
): Promise<Inspection> {
  if ((await Deno.stat(path)).isFile) return await inspectFile(path, families, optional);
  if (await hasIndex(path)) return await inspectModel(path, families);
  const only = await onlyFile(path);
  return only === undefined
    ? await inspectFolder(path, families)
    : await inspectFile(only, families, optional);
}

async function inspectFile(
  path: string,
  families: readonly InspectedFamily[],
  optional: readonly ComponentFormat[],
): Promise<Inspection> {
  using checkpoint = Checkpoint.open(path);
  const bytes = checkpoint.byteLength;
  if (isLora(checkpoint.names)) {
    const lora = await inspectLora(path);
    const isUsable = lora.refused.length === 0 && !lora.hasUnreadFormats;
    return {
      path,
      kind: "lora",
      isUsable,
      bytes,
      components: [],
      lora,
      ...(lora.hasUnreadFormats
        ? { problem: `Cannot use it: LoRAs are read in F32, F16 and BF16` }
        : {}),
    };
  }
  const files = families.map((family) => family.files);
  const formats = formatsFor(checkpoint, files, optional);
  const found = recognise(checkpoint, formats);
  const embedding = found.length === 0 ? inspectEmbedding(path) : undefined;
  if (embedding) {
    return { path, kind: "embedding", isUsable: true, bytes, components: [], embedding };
  }
  if (found.length === 0) {
    const names = [...checkpoint.names].slice(0, SHOWN_NAMES);
    return {
      path,
      kind: "unknown",
      isUsable: false,
      bytes,
      names,
      components: [inspectTensors("unknown", "tensors of no model that is known", checkpoint)],
    };
  }
  const components = found.map(({ format, tensors }) =>
    inspectTensors(format.component, format.name, tensors)
  );
  const transformer = found.find(({ format }) => format.component === "transformer");
  const own = transformer ?? found.find(({ format }) => isForFamily(format));
  const family = own && families.find(({ files }) => files.formats.includes(own.format))?.name;
  const problems = found.flatMap(({ format, tensors }) =>
    configProblem(format, tensors, checkpoint)
  );
  const isUsable = problems.length === 0 && !components.some((each) => each.hasUnreadFormats);
  if (transformer && problems.length === 0) {
    problems.push(...await modelProblem(path, files, optional));
  }
  return {
    path,
    kind: "weights",
    isUsable,
    bytes,
    components,
    ...(family === undefined ? {} : { family }),
    ...problemLines(problems),
  };
}

/** Whether a part goes with the models of one family alone. */
function isForFamily({ component }: ComponentFormat): boolean {
  return ["transformer", "controlnet", "ip_adapter"].includes(component);
}

function configProblem(
  format: ComponentFormat,
  tensors: TensorSource,
  { metadata }: Checkpoint,
): string[] {
  try {
    format.config(tensors, metadata);
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}

async function modelProblem(
  path: string,
  families: readonly FamilyFiles[],
  optional: readonly ComponentFormat[],
): Promise<string[]> {
  try {
    using _files = await openModelFiles(path, {}, families, optional);
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}

function problemLines(problems: readonly string[]): { problem?: string } {
  return problems.length === 0 ? {} : { problem: problems.join("\n") };
}

async function inspectModel(
  path: string,
  families: readonly InspectedFamily[],
): Promise<Inspection> {
  const index = await readModelIndex(path);
  const components: InspectedComponent[] = [];
  const problems: string[] = [];
  const family = families.find(({ classNames }) => classNames.includes(index.className));
  if (!family) {
    problems.push(`Cannot use it: ${index.className} is no pipeline that this program knows`);
  }
  for (const [name, { className }] of index.components) {
    if (className === SAFETY_CHECKER) continue;
    try {
      const folder = await componentFolder(index, name);
      if (WEIGHTLESS.test(className)) continue;
      using checkpoint = Checkpoint.open(folder);
      components.push(inspectTensors(name, className, checkpoint));
    } catch (error) {
      problems.push((error as Error).message);
    }
  }
  return {
    path,
    kind: "model",
    pipeline: index.className,
    components,
    isUsable: problems.length === 0 && !components.some((each) => each.hasUnreadFormats),
    bytes: components.reduce((sum, { bytes }) => sum + bytes, 0),
    ...(family ? { family: family.name } : {}),
    ...problemLines(problems),
  };
}

async function inspectFolder(
  path: string,
  families: readonly InspectedFamily[],
): Promise<Inspection> {
  using checkpoint = Checkpoint.open(path);
  const config = await readJsonObject(join(path, "config.json")).catch((): JsonObject => ({}));
  const className = classOf(config) ?? "a component without config.json";
  const format = families.flatMap(({ files }) => files.formats)
    .find((format) => format.className === className);
  const component = inspectTensors(
    format?.component ?? "unknown",
    format?.name ?? className,
    checkpoint,
  );
  const own = format && isForFamily(format) ? format : undefined;
  const family = own && families.find(({ files }) => files.formats.includes(own));
  return {
    path,
    kind: format ? "weights" : "unknown",
    components: [component],
    isUsable: format !== undefined && !component.hasUnreadFormats,
    bytes: component.bytes,
    ...(family ? { family: family.name } : {}),
  };
}

/** The file of a folder that has one file of weights and no configuration, as those of LoRAs do. */
async function onlyFile(folder: string): Promise<string | undefined> {
  if (await isFile(join(folder, "config.json"))) return undefined;
  const names = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
  const weights = names.filter(isWeightFile);
  const parts = partOf(weights[0] ?? "")?.all;
  const isOne = weights.length === 1 || weights.every((name) => parts?.includes(name));
  return isOne && weights[0] !== undefined ? join(folder, weights[0]) : undefined;
}

async function isFile(path: string): Promise<boolean> {
  return await Deno.stat(path).then((stat) => stat.isFile, () => false);
}

export interface FormatShare {
  /** The format as containers spell it, such as `Q4_K`. */
  readonly format: string;
  readonly tensors: number;
  readonly bytes: number;
}

export interface InspectedComponent {
  /** Name of the component in `model_index.json`, such as `transformer`. */
  readonly component: string;
  /** What the component is, such as `a Z-Image transformer`; its class where no file tells more. */
  readonly holds: string;
  /** The largest share of the bytes first. */
  readonly formats: readonly FormatShare[];
  /** Numbers of all tensors. */
  readonly parameters: number;
  readonly bytes: number;
  /** Bytes on the GPU, about; rows of embedding tables stay in the file. */
  readonly deviceBytes: number;
  /** Whether the program knows no way to read some tensors. */
  readonly hasUnreadFormats: boolean;
}

/** Tables whose rows are looked up in the file. */
const TABLE = /(?:^|\.)(?:embed_tokens|token_embd|token_embedding|shared)\.weight$/;

export function inspectTensors(
  component: string,
  holds: string,
  tensors: TensorSource,
): InspectedComponent {
  const shares = new Map<string, FormatShare>();
  let [parameters, bytes, deviceBytes] = [0, 0, 0];
  let hasUnreadFormats = false;
  for (const name of tensors.names) {
    const tensor = tensors.find(name)!;
    const format = tensor.storedAs ?? tensor.format;
    const byteLength = storedBytes(tensor);
    const share = shares.get(format) ?? { format, tensors: 0, bytes: 0 };
    shares.set(format, { format, tensors: share.tensors + 1, bytes: share.bytes + byteLength });
    parameters += elementCount(tensor.shape);
    bytes += byteLength;
    const onDevice = deviceBytesOf(tensor);
    hasUnreadFormats ||= onDevice === undefined;
    deviceBytes += TABLE.test(name) ? 0 : onDevice ?? 0;
  }
  const formats = [...shares.values()].sort((a, b) => b.bytes - a.bytes);
  return { component, holds, formats, parameters, bytes, deviceBytes, hasUnreadFormats };
}

/** Nothing of formats that are not read; numbers beside weights, such as positions, are not uploaded. */
function deviceBytesOf({ format, shape }: StoredTensor): number | undefined {
  if (/^(?:I|U)\d+$|^BOOL$/.test(format)) {
    return shape.length > 1 && format === "I8" ? undefined : 0;
  }
  const storage = storageOf(format, shape, "as-stored");
  if (storage === undefined) return undefined;
  return isWeightFormat(storage)
    ? blockBytes(shape, storage)
    : elementCount(shape) * bytesPerElement(storage);
}
