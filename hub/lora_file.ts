/** From what a user calls a LoRA to the file that holds it. */

import { listEntries } from "../platform/disk.ts";
import { describeFileError, NotFoundError } from "../platform/mod.ts";
import { join, posix, resolve } from "node:path";
import { findSnapshot, isHubId } from "./cache.ts";
import type { HubFile } from "./hub_client.ts";
import { pullModel, type PullOptions } from "./pull.ts";
import { isLoraName, WEIGHTS } from "./parts.ts";
import { lookAt } from "./resolve.ts";
import { parseHubFile } from "./cache.ts";

/** What diffusers and PEFT call the one file of a LoRA's folder. */
const USUAL_NAMES: readonly string[] = [
  "pytorch_lora_weights.safetensors",
  "adapter_model.safetensors",
  "pytorch_lora_weights.bin",
  "adapter_model.bin",
];
/** PEFT's settings, beside the file that they are for. */
const SETTINGS = "adapter_config.json";
const FORMS =
  "a .safetensors, .pt, .ckpt or .bin file, a folder that has one, or a hub id: org/name, or " +
  "org/name:file.safetensors where the repository has several";
const MAX_LISTED = 8;

export interface HubLora {
  readonly id: string;
  /** Path of the file in it; absent where it has one only. */
  readonly file?: string;
}

/** Reads a hub id of a LoRA: `org/name`, or `org/name:file.safetensors`. */
export function readHubLora(text: string): HubLora | undefined {
  // A repository is not named as a file is: that is one in a folder which is not here.
  if (isHubId(text)) return isLoraName(text) ? undefined : { id: text };
  const named = parseHubFile(text);
  return named && isLoraName(named.file) ? named : undefined;
}

/** Finds the file of a LoRA, or fetches it; a path that exists overrides a hub id of the same spelling. */
export async function obtainLora(
  pathOrId: string,
  options: PullOptions = {},
  onPull?: () => void,
): Promise<string> {
  if (pathOrId.trim() === "" || pathOrId.includes("\0")) {
    throw new TypeError(`Cannot open LoRA ${JSON.stringify(pathOrId)}: give ${FORMS}`);
  }
  const path = resolve(pathOrId);
  const found = await lookAt(path, "LoRA");
  if (found === "file") return path;
  if (found === "folder") return await loraIn(path);
  const hub = readHubLora(pathOrId);
  if (hub) return await obtainHubLora(hub, options, onPull);
  throw new NotFoundError(`Cannot open LoRA ${path}: it does not exist; give ${FORMS}`);
}

export async function obtainHubLora(
  lora: HubLora,
  options: PullOptions = {},
  onPull?: () => void,
): Promise<string> {
  const find = () => findHubLora(lora, options.settings?.cacheFolder);
  try {
    return await find();
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
  }
  onPull?.();
  const choose = (id: string, files: readonly HubFile[]) => chooseLora(id, files, lora.file);
  await pullModel(lora.id, { ...options, choose });
  return await find();
}

export async function loraIn(folder: string): Promise<string> {
  const names: string[] = [];
  try {
    for (const { name, isDirectory } of await listEntries(folder)) {
      if (!isDirectory && isLoraName(name)) names.push(name);
    }
  } catch (cause) {
    throw new Error(`Cannot open LoRA ${folder}: ${describeFileError(cause)}`, { cause });
  }
  const name = onlyLora(names);
  if (name !== undefined) return join(folder, name);
  if (names.length === 0) {
    throw new NotFoundError(
      `Cannot open LoRA ${folder}: the folder has no .safetensors file`,
    );
  }
  throw new TypeError(
    `Cannot open LoRA ${folder}: it has ${names.length} .safetensors files, ${
      list(names)
    }; name one of them`,
  );
}

export function chooseLora(
  id: string,
  files: readonly HubFile[],
  file?: string,
): readonly HubFile[] {
  const paths = files.map(({ path }) => path).filter(isLoraName);
  const chosen = file ?? onlyLora(paths);
  if (chosen === undefined || !paths.includes(chosen)) {
    if (paths.length === 0) {
      throw new RangeError(`Cannot fetch LoRA ${id}: it has no .safetensors file`);
    }
    throw new RangeError(
      `Cannot fetch LoRA ${id}: it has ${file === undefined ? "several files" : `no ${file}`}; ` +
        `name one as ${id}:${paths[0]}, of ${list(paths)}`,
    );
  }
  const settings = posix.join(posix.dirname(chosen), SETTINGS);
  return files.filter(({ path }) => path === chosen || path === settings);
}

/** Finds a LoRA in the cache. Nothing is fetched. */
export async function findHubLora({ id, file }: HubLora, cacheFolder?: string): Promise<string> {
  const folder = resolve(await findSnapshot(id, { cacheFolder }));
  if (file === undefined) return await loraIn(folder);
  const path = join(folder, file);
  if (await lookAt(path, "LoRA") === "file") return path;
  throw new NotFoundError(`Cannot open LoRA ${path}: it does not exist`);
}

/** The one that is meant where only a folder is named. */
function onlyLora(paths: readonly string[]): string | undefined {
  const weights = paths.filter((path) => WEIGHTS.test(path));
  const others = weights.length > 0 ? weights : paths;
  return USUAL_NAMES.find((name) => paths.includes(name)) ??
    (others.length === 1 ? others[0] : undefined);
}

function list(names: readonly string[]): string {
  const listed = names.toSorted().slice(0, MAX_LISTED).join(", ");
  return names.length > MAX_LISTED ? `${listed}, …` : listed;
}
