/**
 * From what a user calls a model to the folder that holds it.
 *
 * @module
 */

import { basename, join, resolve } from "node:path";
import { type CacheOptions, findSnapshot, isHubId } from "./cache.ts";
import { describeFileError } from "./json_file.ts";
import { MODEL_INDEX } from "./model_index.ts";

/** A folder in the layout of diffusers, with `model_index.json` in it. */
export interface ModelFolder {
  /** Absolute path. */
  readonly path: string;
  /** What to call the model: its hub id, or the last part of its path. */
  readonly name: string;
  /** Hub id and commit, where it was found in the cache. */
  readonly hub?: {
    /** The repository, `org/name`. */
    readonly id: string;
    /** The commit, 40 hexadecimal digits. */
    readonly commit: string;
  };
}

/**
 * Finds the folder of a model. A path that exists wins over a hub id of the same spelling; nothing
 * is downloaded.
 *
 * @param pathOrId the path of a folder, or `org/name` of a repository in the Hugging Face cache
 * @param options which cache and which revision, for hub ids
 * @returns the folder
 * @throws {Deno.errors.NotFound} when there is neither, or the folder has no `model_index.json`,
 * saying what to do
 * @throws {TypeError} when nothing was given, or a file
 * @throws {Error} when the file system refuses
 */
export async function resolveModel(
  pathOrId: string,
  options: CacheOptions = {},
): Promise<ModelFolder> {
  if (pathOrId.trim() === "" || pathOrId.includes("\0")) {
    throw new TypeError(
      `Cannot open model ${
        JSON.stringify(pathOrId)
      }: give the path of a model folder or a hub id ` +
        "of the form org/name",
    );
  }
  const path = resolve(pathOrId);
  const found = await look(path);
  if (found === "folder") {
    await requireIndex(path, "a model is a folder that a diffusers pipeline was saved to");
    return { path, name: basename(path) };
  }
  if (found === "file") {
    throw new TypeError(
      `Cannot open model ${path}: it is a file; give the folder that has ${MODEL_INDEX}`,
    );
  }
  if (!isHubId(pathOrId)) {
    throw new Deno.errors.NotFound(
      `Cannot open model ${path}: it does not exist; give the path of a model folder or a hub id ` +
        "of the form org/name",
    );
  }
  const snapshot = await findSnapshot(pathOrId, options);
  await requireIndex(snapshot.path, "the repository is no pipeline, or its download is incomplete");
  const { id, commit } = snapshot;
  return { path: resolve(snapshot.path), name: id, hub: { id, commit } };
}

async function look(path: string): Promise<"folder" | "file" | "nothing"> {
  try {
    return (await Deno.stat(path)).isDirectory ? "folder" : "file";
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound || cause instanceof Deno.errors.NotADirectory) {
      return "nothing";
    }
    throw new Error(`Cannot open model ${path}: ${describeFileError(cause)}`, { cause });
  }
}

async function requireIndex(folder: string, hint: string): Promise<void> {
  let reason = `its ${MODEL_INDEX} is not a file`;
  try {
    if ((await Deno.stat(join(folder, MODEL_INDEX))).isFile) return;
  } catch (error) {
    reason = error instanceof Deno.errors.NotFound
      ? `it has no ${MODEL_INDEX}`
      : `${MODEL_INDEX} cannot be read, ${describeFileError(error)}`;
  }
  throw new Deno.errors.NotFound(`Cannot open model ${folder}: ${reason}; ${hint}`);
}
