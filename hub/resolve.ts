/** From what a user calls a model to the folder or file that holds it. */

import {
  describeFileError,
  fileInfo,
  isAbsence,
  listFolder,
  NotFoundError,
} from "../platform/mod.ts";
import { join, resolve } from "node:path";
import {
  type CacheOptions,
  findSnapshot,
  type HubFileName,
  isHubId,
  parseHubFile,
} from "./cache.ts";
import { hasIndex, MODEL_INDEX } from "./model_index.ts";
import { didYouMean } from "./near_names.ts";
import { isWeightFile, partOf, PICKLES, WEIGHTS } from "./parts.ts";

/** Finds a model by a path, or in the cache by `org/name` or `org/name:file`; a path that exists comes first. */
export async function resolveModel(
  pathOrId: string,
  options: CacheOptions = {},
): Promise<string> {
  if (pathOrId.trim() === "" || pathOrId.includes("\0")) {
    throw new TypeError(
      `Cannot open model ${
        JSON.stringify(pathOrId)
      }: give the path of a model's folder or file, or a hub id of the form org/name`,
    );
  }
  const path = resolve(pathOrId);
  const found = await lookAt(path, "model");
  if (found === "folder") {
    return await modelIn(
      path,
      "a model is a folder that a diffusers pipeline was saved to, or a file of weights",
      (file) => join(path, file),
    );
  }
  if (found === "file") {
    if (isWeightFile(path)) return path;
    throw new TypeError(
      `Cannot open model ${path}: it is a file; give the folder that has ${MODEL_INDEX}, or a file ` +
        "of weights, which ends with .safetensors, .gguf, .ckpt, .pt, .pth or .bin",
    );
  }
  const hubFile = parseHubFile(pathOrId);
  if (hubFile) return await resolveFile(hubFile, options);
  if (!isHubId(pathOrId)) {
    throw new NotFoundError(
      `Cannot open model ${path}: it does not exist; give the path of a model's folder or file, ` +
        'a hub id of the form org/name or org/name:file, or a name that "denoise list --all" shows' +
        didYouMean(pathOrId),
    );
  }
  const model = await modelIn(
    await findSnapshot(pathOrId, options),
    "the repository is no pipeline, or its download is incomplete",
    (file) => `${pathOrId}:${file}`,
  );
  return resolve(model);
}

async function resolveFile({ id, file }: HubFileName, options: CacheOptions): Promise<string> {
  const snapshot = await findSnapshot(id, options);
  const path = resolve(join(snapshot, file));
  const part = partOf(file);
  const looks = (part?.all ?? [file]).map((each) => lookAt(join(snapshot, each), "model"));
  if ((await Promise.all(looks)).every((found) => found === "file")) return path;
  throw new NotFoundError(
    `Cannot find ${id}:${file}: this machine has no such file of it${
      part ? ", or not all of its parts" : ""
    }; fetch it with denoise pull ${id} --include ${JSON.stringify(part?.pattern ?? file)}`,
  );
}

/** The folder itself where it has an index, or its only file of weights. */
async function modelIn(
  folder: string,
  hint: string,
  nameOf: (file: string) => string,
): Promise<string> {
  let reason = `its ${MODEL_INDEX} is not a file`;
  try {
    if ((await fileInfo(join(folder, MODEL_INDEX))).isFile) return folder;
  } catch (error) {
    if (error instanceof NotFoundError) {
      if (await hasIndex(folder)) return folder;
      const files = await weightsIn(folder);
      const parts = partOf(files[0] ?? "")?.all;
      if (files.length === 1 || (parts && files.every((file) => parts.includes(file)))) {
        return join(folder, files[0]!);
      }
      reason = `it has no ${MODEL_INDEX}`;
      if (files.length > 1) {
        throw new NotFoundError(
          `Cannot open model ${folder}: ${reason}, and ${files.length} files of weights; ` +
            `name one of them, such as ${nameOf(files[0]!)}`,
        );
      }
    } else reason = `${MODEL_INDEX} cannot be read, ${describeFileError(error)}`;
  }
  throw new NotFoundError(`Cannot open model ${folder}: ${reason}; ${hint}`);
}

async function weightsIn(folder: string): Promise<string[]> {
  const names = await listFolder(folder);
  const weights = names.filter((name) => WEIGHTS.test(name));
  return (weights.length > 0 ? weights : names.filter((name) => PICKLES.test(name))).sort();
}

/** Tells a folder from a file, and either from nothing. */
export async function lookAt(
  path: string,
  what: "LoRA" | "model",
): Promise<"folder" | "file" | "nothing"> {
  try {
    return (await fileInfo(path)).isDirectory ? "folder" : "file";
  } catch (cause) {
    if (isAbsence(cause)) return "nothing";
    throw new Error(`Cannot open ${what} ${path}: ${describeFileError(cause)}`, { cause });
  }
}
