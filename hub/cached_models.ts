/** What the cache holds, and how to be rid of it. */

import { join } from "node:path";
import { isHubId, repositoryFolder } from "./cache.ts";
import { describeFileError } from "./json_file.ts";

/** A repository in the cache. */
export interface CachedModel {
  /** `org/name`. */
  readonly id: string;
  /** Folder of the model in the cache. */
  readonly folder: string;
  /** Size on disk, in bytes. */
  readonly bytes: number;
  /** Bytes of files that have not come whole. */
  readonly partialBytes: number;
  /** Revisions by name, such as `main`, and their commits. */
  readonly revisions: Readonly<Record<string, string>>;
  /** When one of its files was fetched last. */
  readonly fetchedAt: Date | undefined;
}

const PREFIX = "models--";

/** Lists the repositories in the cache. */
export async function listCachedModels(cacheFolder: string): Promise<CachedModel[]> {
  const models: CachedModel[] = [];
  for (const entry of await readFolder(cacheFolder)) {
    const id = entry.name.slice(PREFIX.length).replace("--", "/");
    if (!entry.isDirectory || !entry.name.startsWith(PREFIX) || !isHubId(id)) continue;
    models.push(await describe(id, join(cacheFolder, entry.name)));
  }
  return models.sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** Removes a repository from the cache, all revisions and parts of downloads included. */
export async function removeCachedModel(id: string, cacheFolder: string): Promise<CachedModel> {
  const folder = repositoryFolder(id, cacheFolder);
  const isThere = await Deno.stat(folder).then((info) => info.isDirectory, () => false);
  if (!isThere) {
    throw new Deno.errors.NotFound(`Cannot remove ${id}: it is not in ${cacheFolder}`);
  }
  const model = await describe(id, folder);
  await Deno.remove(folder, { recursive: true });
  const locks = join(cacheFolder, ".locks", folder.slice(cacheFolder.length + 1));
  await Deno.remove(locks, { recursive: true }).catch(() => {});
  return model;
}

async function describe(id: string, folder: string): Promise<CachedModel> {
  let [bytes, partialBytes] = [0, 0];
  let fetchedAt: Date | undefined;
  for (const { name, isFile } of await readFolder(join(folder, "blobs"))) {
    if (!isFile) continue;
    const { size, mtime } = await Deno.stat(join(folder, "blobs", name));
    bytes += size;
    if (name.endsWith(".incomplete")) partialBytes += size;
    if (mtime && (!fetchedAt || mtime > fetchedAt)) fetchedAt = mtime;
  }
  const revisions: Record<string, string> = {};
  await readRefs(join(folder, "refs"), "", revisions);
  return { id, folder, bytes, partialBytes, revisions, fetchedAt };
}

/** A branch `a/b` is a file in a folder. */
async function readRefs(
  folder: string,
  prefix: string,
  revisions: Record<string, string>,
): Promise<void> {
  for (const { name, isFile, isDirectory } of await readFolder(folder)) {
    if (isDirectory) await readRefs(join(folder, name), `${prefix}${name}/`, revisions);
    else if (isFile) {
      revisions[`${prefix}${name}`] = (await Deno.readTextFile(join(folder, name))).trim();
    }
  }
}

async function readFolder(path: string): Promise<Deno.DirEntry[]> {
  try {
    return await Array.fromAsync(Deno.readDir(path));
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return [];
    throw new Error(`Cannot read ${path}: ${describeFileError(cause)}`, { cause });
  }
}
