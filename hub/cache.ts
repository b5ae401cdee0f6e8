/** The cache of huggingface_hub: `models--ORG--NAME/refs/REVISION` holds a commit, `snapshots/COMMIT/` its files. */

import { isWeightFile } from "./parts.ts";
import {
  describeFileError,
  env,
  fileInfo,
  isAbsence,
  join,
  NotFoundError,
  readText,
} from "../platform/mod.ts";

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

/** The path of a file of weights inside of a repository: no way out of it. */
const FILE_IN_REPOSITORY = /^(?!.*(?:^|\/)\.)[\w.+ -]+(?:\/[\w.+ -]+)*$/;

/** A file in a repository, as `org/name:folder/file.gguf` names it. */
export interface HubFileName {
  readonly id: string;
  readonly file: string;
}

/** Reads the name of a file in a repository, such as `org/name:model-Q4_K.gguf`. */
export function parseHubFile(text: string): HubFileName | undefined {
  const [id = "", file = "", ...rest] = text.split(":");
  return rest.length === 0 && isHubId(id) && FILE_IN_REPOSITORY.test(file) && isWeightFile(file)
    ? { id, file }
    : undefined;
}

/** By their variables: `HF_HUB_CACHE`, else `hub` in `HF_HOME`, else `huggingface/hub` in `XDG_CACHE_HOME` or `.cache`. */
export function hubCacheFolder(
  variable: (name: string) => string | undefined = env,
): string {
  const folder = findCacheFolder(variable);
  if (folder !== undefined) return folder;
  throw new Error(
    "Cannot find the Hugging Face cache: neither HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME nor HOME " +
      "is set; set one of them",
  );
}

/** As {@link hubCacheFolder}, or nothing where no variable is set, as for a service without a home. */
export function findCacheFolder(
  variable: (name: string) => string | undefined = env,
): string | undefined {
  // An empty variable counts as unset.
  const get = (name: string) => variable(name) || undefined;
  const home = get("HOME") ?? get("USERPROFILE");
  const expand = (path: string) =>
    home !== undefined && /^~(?=$|[/\\])/.test(path) ? join(home, path.slice(1)) : path;
  const direct = get("HF_HUB_CACHE") ?? get("HUGGINGFACE_HUB_CACHE");
  if (direct !== undefined) return expand(direct);
  const hfHome = get("HF_HOME");
  if (hfHome !== undefined) return join(expand(hfHome), "hub");
  const cache = get("XDG_CACHE_HOME");
  if (cache !== undefined) return join(expand(cache), "huggingface", "hub");
  return home === undefined ? undefined : join(home, ".cache", "huggingface", "hub");
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
    throw new NotFoundError(
      `Cannot find ${id}: it is not on this machine (looked in ${cacheFolder}); fetch it with ` +
        `${download}, or give the path of a model folder`,
    );
  }
  const commit = COMMIT.test(revision)
    ? revision
    : await readCommit(join(repository, "refs", ...segments));
  const path = commit === undefined ? undefined : join(repository, "snapshots", commit);
  if (commit === undefined || path === undefined || !(await isFolder(path))) {
    throw new NotFoundError(
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
    const { isFile, size } = await fileInfo(path);
    if (!isFile || size > 1024) return undefined;
    text = (await readText(path)).trim();
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
    return (await fileInfo(path)).isDirectory;
  } catch (cause) {
    if (isAbsence(cause)) return false;
    throw new Error(`Cannot read ${path}: ${describeFileError(cause)}`, { cause });
  }
}
