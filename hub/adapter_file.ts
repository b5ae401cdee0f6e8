/**
 * From what a user calls an adapter to the file that holds it.
 *
 * @module
 */

import { join, posix, resolve } from "node:path";
import { findSnapshot, isHubId } from "./cache.ts";
import type { HubFile } from "./hub_client.ts";
import { describeFileError } from "./json_file.ts";
import { pullModel, type PullOptions } from "./pull.ts";
import { parseHubFile } from "./resolve.ts";

/** What diffusers and PEFT call the one file of an adapter's folder. */
const USUAL_NAMES: readonly string[] = [
  "pytorch_lora_weights.safetensors",
  "adapter_model.safetensors",
];
/** PEFT's settings, beside the file that they are for. */
const SETTINGS = "adapter_config.json";
const FORMS = "a .safetensors file, a folder that has one, or a hub id: org/name, or " +
  "org/name:file.safetensors where the repository has several";
/** Most names of files that a message lists. */
const MAX_LISTED = 8;

/** An adapter on a hub. */
export interface HubAdapter {
  /** The repository, `org/name`. */
  readonly id: string;
  /** Path of the file in it; absent where it has one only. */
  readonly file?: string;
}

/**
 * Reads a hub id of an adapter: `org/name`, or `org/name:file.safetensors`.
 *
 * @param text anything
 * @returns its parts; undefined for anything else
 */
export function readHubAdapter(text: string): HubAdapter | undefined {
  // A repository is not named as a file is: that is one in a folder which is not here.
  if (isHubId(text)) return isAdapterName(text) ? undefined : { id: text };
  const named = parseHubFile(text);
  return named && isAdapterName(named.file) ? named : undefined;
}

/**
 * Finds the file of an adapter; one on the hub is fetched where the cache does not have it. A path that exists wins
 * over a hub id of the same spelling.
 *
 * @param pathOrId a file, a folder with one adapter, or a hub id
 * @param options how a pull is watched and stopped, and from where
 * @param onPull called before one begins
 * @returns absolute path of a file
 * @throws {Deno.errors.NotFound} when there is none, saying what to do
 * @throws {TypeError} when nothing was given, or a folder has several
 * @throws {Error} as {@link pullModel} does, and when the file system refuses
 */
export async function obtainAdapter(
  pathOrId: string,
  options: PullOptions = {},
  onPull?: () => void,
): Promise<string> {
  if (pathOrId.trim() === "" || pathOrId.includes("\0")) {
    throw new TypeError(`Cannot open adapter ${JSON.stringify(pathOrId)}: give ${FORMS}`);
  }
  const path = resolve(pathOrId);
  const found = await look(path);
  if (found === "file") return path;
  if (found === "folder") return await adapterIn(path);
  const hub = readHubAdapter(pathOrId);
  if (hub) return await obtainHubAdapter(hub, options, onPull);
  throw new Deno.errors.NotFound(`Cannot open adapter ${path}: it does not exist; give ${FORMS}`);
}

/**
 * Finds an adapter in the cache, or fetches it from the hub.
 *
 * @param adapter repository and file
 * @param options how a pull is watched and stopped, and from where
 * @param onPull called before one begins
 * @returns absolute path of a file
 * @throws {Error} as {@link pullModel} does
 * @throws {TypeError} when the repository has several, and none was named
 */
export async function obtainHubAdapter(
  adapter: HubAdapter,
  options: PullOptions = {},
  onPull?: () => void,
): Promise<string> {
  const find = () => findHubAdapter(adapter, options.settings?.cacheFolder);
  try {
    return await find();
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  onPull?.();
  const choose = (id: string, files: readonly HubFile[]) => chooseAdapter(id, files, adapter.file);
  await pullModel(adapter.id, { ...options, choose });
  return await find();
}

/**
 * The one adapter of a folder.
 *
 * @param folder that exists
 * @returns path of a file in it
 * @throws {Deno.errors.NotFound} when there is none
 * @throws {TypeError} when there are several and none has the usual name
 */
export async function adapterIn(folder: string): Promise<string> {
  const names: string[] = [];
  try {
    for await (const { name, isDirectory } of Deno.readDir(folder)) {
      if (!isDirectory && isAdapterName(name)) names.push(name);
    }
  } catch (cause) {
    throw new Error(`Cannot open adapter ${folder}: ${describeFileError(cause)}`, { cause });
  }
  const name = onlyAdapter(names);
  if (name !== undefined) return join(folder, name);
  if (names.length === 0) {
    throw new Deno.errors.NotFound(
      `Cannot open adapter ${folder}: the folder has no .safetensors file`,
    );
  }
  throw new TypeError(
    `Cannot open adapter ${folder}: it has ${names.length} .safetensors files, ${
      list(names)
    }; name one of them`,
  );
}

/**
 * Which files of a repository an adapter needs.
 *
 * @param id for messages
 * @param files of the repository
 * @param file the adapter's path in it; its only one when left out
 * @returns the adapter, and PEFT's settings beside it
 * @throws {RangeError} when there is no such file, or it has to be chosen
 */
export function chooseAdapter(
  id: string,
  files: readonly HubFile[],
  file?: string,
): readonly HubFile[] {
  const paths = files.map(({ path }) => path).filter(isAdapterName);
  const chosen = file ?? onlyAdapter(paths);
  if (chosen === undefined || !paths.includes(chosen)) {
    if (paths.length === 0) {
      throw new RangeError(`Cannot fetch adapter ${id}: it has no .safetensors file`);
    }
    throw new RangeError(
      `Cannot fetch adapter ${id}: it has ${
        file === undefined ? "several files" : `no ${file}`
      }; ` +
        `name one as ${id}:${paths[0]}, of ${list(paths)}`,
    );
  }
  const settings = posix.join(posix.dirname(chosen), SETTINGS);
  return files.filter(({ path }) => path === chosen || path === settings);
}

/**
 * Finds an adapter in the cache. Nothing is fetched.
 *
 * @param adapter repository and file
 * @param cacheFolder the cache; that of the environment when left out
 * @returns absolute path of a file
 * @throws {Deno.errors.NotFound} when it is not there
 * @throws {TypeError} when the repository has several, and none was named
 */
export async function findHubAdapter(
  { id, file }: HubAdapter,
  cacheFolder?: string,
): Promise<string> {
  const snapshot = await findSnapshot(id, cacheFolder === undefined ? {} : { cacheFolder });
  const folder = resolve(snapshot.path);
  if (file === undefined) return await adapterIn(folder);
  const path = join(folder, file);
  if (await look(path) === "file") return path;
  throw new Deno.errors.NotFound(`Cannot open adapter ${path}: it does not exist`);
}

/** The one that is meant where only a folder is named. */
function onlyAdapter(paths: readonly string[]): string | undefined {
  return USUAL_NAMES.find((name) => paths.includes(name)) ??
    (paths.length === 1 ? paths[0] : undefined);
}

function isAdapterName(path: string): boolean {
  return path.toLowerCase().endsWith(".safetensors");
}

function list(names: readonly string[]): string {
  const listed = names.toSorted().slice(0, MAX_LISTED).join(", ");
  return names.length > MAX_LISTED ? `${listed}, …` : listed;
}

async function look(path: string): Promise<"folder" | "file" | "nothing"> {
  try {
    return (await Deno.stat(path)).isDirectory ? "folder" : "file";
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound || cause instanceof Deno.errors.NotADirectory) {
      return "nothing";
    }
    throw new Error(`Cannot open adapter ${path}: ${describeFileError(cause)}`, { cause });
  }
}
