/** What the cache of huggingface_hub holds, and removing of it. */

import { type FolderEntry, listEntries } from "../platform/disk.ts";
import { describeFileError, fileInfo, join, NotFoundError, readText } from "../platform/mod.ts";
import { isHubId, repositoryFolder } from "./cache.ts";

export interface CachedModel {
  readonly id: string;
  readonly bytes: number;
  /** Bytes of files that have not come whole. */
  readonly partialBytes: number;
  /** Revisions by name, such as `main`, and their commits. */
  readonly revisions: Readonly<Record<string, string>>;
  /** When one of its files was fetched last. */
  readonly fetchedAt: Date | undefined;
}

const PREFIX = "models--";

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
  const isThere = await fileInfo(folder).then((info) => info.isDirectory, () => false);
  if (!isThere) {
    throw new NotFoundError(`Cannot remove ${id}: it is not in ${cacheFolder}`);
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
    // A download that is under way renames its files.
    const info = await fileInfo(join(folder, "blobs", name)).catch((error) => {
      if (!(error instanceof NotFoundError)) throw error;
    });
    if (!info) continue;
    const { size, mtime } = info;
    bytes += size;
    if (name.endsWith(".incomplete")) partialBytes += size;
    if (mtime && (!fetchedAt || mtime > fetchedAt)) fetchedAt = mtime;
  }
  const revisions: Record<string, string> = {};
  await readRefs(join(folder, "refs"), "", revisions);
  return { id, bytes, partialBytes, revisions, fetchedAt };
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
      revisions[`${prefix}${name}`] = (await readText(join(folder, name))).trim();
    }
  }
}

async function readFolder(path: string): Promise<FolderEntry[]> {
  try {
    return await listEntries(path);
  } catch (cause) {
    if (cause instanceof NotFoundError) return [];
    throw new Error(`Cannot read ${path}: ${describeFileError(cause)}`, { cause });
  }
}
