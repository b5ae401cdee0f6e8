/** The cache of huggingface_hub: `models--ORG--NAME/refs/REVISION` holds a commit, `snapshots/COMMIT/` its files. */

import { join } from "node:path";
import { describeFileError } from "./json_file.ts";

export interface CacheOptions {
  /** The cache itself; taken from the environment by default, see {@link hubCacheFolder}. */
  readonly cacheFolder?: string | undefined;
  /** A branch, a tag or a whole commit; `main` by default. */
  readonly revision?: string;
  /** Reads an environment variable; the process's own by default. */
  readonly env?: (name: string) => string | undefined;
}

const COMMIT = /^[0-9a-f]{40}$/;

/** Whether a text has the form of a hub id: `org/name`, of letters, digits, `_`, `-` and `.`. */
export function isHubId(text: string): boolean {
  const part = "\\w(?:[\\w.-]{0,94}\\w)?";
  return new RegExp(`^${part}/${part}$`).test(text) && !/--|\.\./.test(text);
}

/** By their variables: `HF_HUB_CACHE`, else `hub` in `HF_HOME`, else `huggingface/hub` in `XDG_CACHE_HOME` or `.cache`. */
export function hubCacheFolder(
  env: (name: string) => string | undefined = (name) => Deno.env.get(name),
): string {
  // An empty variable counts as unset.
  const get = (name: string) => env(name) || undefined;
  const home = get("HOME") ?? get("USERPROFILE");
  const expand = (path: string) =>
    home !== undefined && /^~(?=$|[/\\])/.test(path) ? join(home, path.slice(1)) : path;
  const direct = get("HF_HUB_CACHE") ?? get("HUGGINGFACE_HUB_CACHE");
  if (direct !== undefined) return expand(direct);
  const hfHome = get("HF_HOME");
  if (hfHome !== undefined) return join(expand(hfHome), "hub");
  const cache = get("XDG_CACHE_HOME");
  if (cache !== undefined) return join(expand(cache), "huggingface", "hub");
  if (home !== undefined) return join(home, ".cache", "huggingface", "hub");
  throw new Error(
    "Cannot find the Hugging Face cache: neither HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME nor HOME " +
      "is set; set one of them",
  );
}

export function repositoryFolder(id: string, cacheFolder: string): string {
  if (!isHubId(id)) {
    throw new TypeError(`Cannot look up ${JSON.stringify(id)}: a hub id has the form org/name`);
  }
  return join(cacheFolder, `models--${id.replace("/", "--")}`);
}

/** The folder that a repository's files have in the cache. Nothing is downloaded. */
export async function findSnapshot(id: string, options: CacheOptions = {}): Promise<string> {
  const revision = options.revision ?? "main";
  const segments = revisionSegments(id, revision);
  const cacheFolder = options.cacheFolder ?? hubCacheFolder(options.env);
  const repository = repositoryFolder(id, cacheFolder);
  const download = revision === "main"
    ? `denoise pull ${id}`
    : `denoise pull ${id} --revision ${revision}`;
  if (!(await isFolder(repository))) {
    throw new Deno.errors.NotFound(
      `Cannot find ${id}: it is not on this machine (looked in ${cacheFolder}); fetch it with ` +
        `${download}, or give the path of a model folder`,
    );
  }
  const commit = COMMIT.test(revision)
    ? revision
    : await readCommit(join(repository, "refs", ...segments));
  const path = commit === undefined ? undefined : join(repository, "snapshots", commit);
  if (commit === undefined || path === undefined || !(await isFolder(path))) {
    throw new Deno.errors.NotFound(
      `Cannot find ${id}: ${repository} has no files of revision ${revision}; fetch them with ` +
        download,
    );
  }
  return path;
}

/** The parts of a revision's name, which are folders in the cache. */
export function revisionSegments(id: string, revision: string): string[] {
  const segments = revision.split("/");
  if (segments.every((segment) => /^[\w.+-]+$/.test(segment) && !/^\.+$/.test(segment))) {
    return segments;
  }
  throw new TypeError(
    `Cannot look up ${id}: ${JSON.stringify(revision)} is not a branch, tag or commit`,
  );
}

/** The commit that a ref file holds; undefined when there is none. */
async function readCommit(path: string): Promise<string | undefined> {
  let text: string;
  try {
    const { isFile, size } = await Deno.stat(path);
    if (!isFile || size > 1024) return undefined;
    text = (await Deno.readTextFile(path)).trim();
  } catch (cause) {
    if (isAbsence(cause)) return undefined;
    throw new Error(`Cannot read ${path}: ${describeFileError(cause)}`, { cause });
  }
  if (!COMMIT.test(text)) {
    throw new Error(`Cannot read ${path}: it must hold a commit of 40 hexadecimal digits`);
  }
  return text;
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await Deno.stat(path)).isDirectory;
  } catch (cause) {
    if (isAbsence(cause)) return false;
    throw new Error(`Cannot read ${path}: ${describeFileError(cause)}`, { cause });
  }
}

export function isAbsence(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
}

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
