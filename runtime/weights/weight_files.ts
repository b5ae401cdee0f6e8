/** Which files hold the weights that a path names: a component's folder, one file, or one part of several. */
import { basename, dirname, isFileSync, join, listFolderSync } from "../../platform/mod.ts";
import { isObject, readJsonFileSync } from "../../hub/json_file.ts";
import { isWeightFile, partOf } from "../../hub/parts.ts";

/** A file, and which of its tensors count where an index says so. */
export interface WeightFile {
  readonly path: string;
  readonly expected?: readonly string[];
}

/** Names under which diffusers and transformers save the weights of a component, the most wanted first. */
const USUAL_NAMES = [
  ["diffusion_pytorch_model", "safetensors"],
  ["model", "safetensors"],
  ["diffusion_pytorch_model", "bin"],
  ["pytorch_model", "bin"],
] as const;

/** Far more than the index of any model has. */
const MAX_INDEX_BYTES = 16 * 1024 * 1024;

/** The name of a file beside the index: no separators, no drive, no control characters. */
// deno-lint-ignore no-control-regex
const SHARD_NAME = /^[^/\\:\x00-\x1f]{1,200}\.(?:safetensors|bin)$/;

/** The index of shards, of a precision where its name has one. */
const INDEX_NAME = /^([\w-]+)(?:\.(\w+))?\.(safetensors|bin)\.index(?:\.(\w+))?\.json$/;
/** A file of weights, whole or a part, of a precision where its name has one. */
const FILE_NAME = /^([\w-]+?)(?:\.(\w+))?(?:-\d+-of-\d+)?\.(safetensors|bin)$/;

/** The files behind a path that a user named. */
export function listWeightFiles(path: string): WeightFile[] {
  return isFileSync(path)
    ? numberedParts(path) ?? indexedParts(path) ?? [{ path }]
    : listFolder(path);
}

/** All parts of a file that is one by its name. */
function numberedParts(path: string): WeightFile[] | undefined {
  const part = partOf(path);
  const missing = part?.all.find((each) => !isFileSync(each));
  if (!part || missing === undefined) return part?.all.map((each) => ({ path: each }));
  throw new SyntaxError(
    `Cannot read "${path}": it is part ${part.number} of ${part.all.length}, and "${
      basename(missing)
    }" does not lie beside it; fetch all parts into one folder`,
  );
}

/** The files of an index beside a file that names it among others. */
function indexedParts(path: string): WeightFile[] | undefined {
  const folder = dirname(path);
  for (const name of namesIn(folder).filter((name) => INDEX_NAME.test(name))) {
    const files = shardsIn(folder, name);
    if (files.length > 1 && files.some((file) => basename(file.path) === basename(path))) {
      return files;
    }
  }
  return undefined;
}

/** The files of an index that may have nothing to do with the file at hand, so that it matters not where it is damaged. */
function shardsIn(folder: string, index: string): WeightFile[] {
  try {
    return listShards(folder, join(folder, index));
  } catch {
    return [];
  }
}

function listFolder(folder: string): WeightFile[] {
  const names = namesIn(folder);
  for (const [base, wanted] of USUAL_NAMES) {
    const own = names.flatMap((name) => {
      const found = INDEX_NAME.exec(name) ?? FILE_NAME.exec(name) ?? [];
      const [, stem, variant, ending, indexVariant] = found;
      const isOwn = stem === base && ending === wanted;
      return isOwn ? [{ name, variant: variant ?? indexVariant ?? "" }] : [];
    });
    const variants = [...new Set(own.map(({ variant }) => variant))];
    if (variants.length > 1 && !variants.includes("")) {
      throw new SyntaxError(
        `Cannot choose weights in "${folder}": it has ${base} as ${
          variants.join(" and as ")
        }; keep one of them`,
      );
    }
    const precision = variants.length === 1 ? variants[0] : "";
    const candidates = own.filter(({ variant }) => variant === precision).map(({ name }) => name);
    const index = candidates.find((name) => name.endsWith(".json"));
    if (index !== undefined) return listShards(folder, join(folder, index));
    // A whole file comes before the parts of an earlier download.
    const file = candidates.find((name) => !partOf(name)) ?? candidates[0];
    if (file !== undefined) {
      return numberedParts(join(folder, file)) ?? [{ path: join(folder, file) }];
    }
  }
  const others = names.filter((name) =>
    /\.(?:safetensors|gguf|bin|pth?|ckpt|h5|onnx)$/i.test(name)
  );
  throw new SyntaxError(
    `Cannot find weights in "${folder}": it has neither ${
      USUAL_NAMES.slice(0, 2).map((name) => name.join(".")).join(" nor ")
    }, nor an index of one${others.length > 0 ? `, but ${others.slice(0, 4).join(", ")}` : ""}; ${
      others.some(isWeightFile)
        ? "name one of the files"
        : "other formats are not read, fetch the model as safetensors"
    }`,
  );
}

function listShards(folder: string, index: string): WeightFile[] {
  const json = readJsonFileSync(index, { maxBytes: MAX_INDEX_BYTES });
  const weightMap = isObject(json) ? json["weight_map"] : undefined;
  if (!isObject(weightMap) || Object.keys(weightMap).length === 0) {
    throw new SyntaxError(`Cannot read "${index}": it has no "weight_map"; fetch it again`);
  }
  const byFile = new Map<string, string[]>();
  for (const [name, file] of Object.entries(weightMap)) {
    if (typeof file !== "string" || !SHARD_NAME.test(file)) {
      throw new SyntaxError(
        `Cannot read "${index}": tensor "${name.slice(0, 200)}" lies in ${
          typeof file === "string" ? JSON.stringify(file.slice(0, 200)) : "no text"
        }, which is no file of the folder`,
      );
    }
    const names = byFile.get(file);
    if (names) names.push(name);
    else byFile.set(file, [name]);
  }
  return [...byFile].map(([file, expected]) => ({ path: join(folder, file), expected }));
}

function namesIn(folder: string): string[] {
  try {
    return listFolderSync(folder).sort();
  } catch {
    // Said when the files are opened.
    return [];
  }
}
