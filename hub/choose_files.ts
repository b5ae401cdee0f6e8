/**
 * Which files of a repository a model needs: repositories often hold the same weights several times.
 *
 * @module
 */

import type { HubFile } from "./hub_client.ts";
import { MODEL_INDEX } from "./model_index.ts";

/** Endings of weight files that can be read. */
const WEIGHTS = /\.(?:safetensors|gguf)$/i;
/** Weights for other programs, and what only shows a model off. */
const UNUSED =
  /\.(?:bin|ckpt|pt|pth|pkl|h5|msgpack|onnx|onnx_data|tflite|mlmodel|png|jpe?g|gif|webp|mp4|zip|tar|gz)$/i;
/** A precision in the name of a weight file: `model.fp16.safetensors`, `model.fp16-00001-of-00002.safetensors`. */
const VARIANT = /\.(?:fp16|bf16|fp32|non_ema|ema)(?=[.-])/;

/**
 * Chooses by patterns, or what a model needs when there are none.
 *
 * @param id for messages
 * @param files of the repository
 * @param include patterns with `*`, `?` and `[…]`, over whole paths or file names; `folder/` stands for all in it
 * @returns the files to fetch
 * @throws {RangeError} when no file matches, or several models are there to choose from
 */
export function chooseFiles(
  id: string,
  files: readonly HubFile[],
  include: readonly string[] = [],
): readonly HubFile[] {
  if (include.length > 0) {
    const patterns = include.map(toRegExp);
    const chosen = files.filter(({ path }) => patterns.some((pattern) => pattern.test(path)));
    if (chosen.length > 0) return chosen;
    throw new RangeError(
      `Cannot fetch ${id}: none of its ${files.length} files matches ${
        include.join(", ")
      }; it has ${list(files.map(({ path }) => path))}`,
    );
  }
  const hasIndex = files.some(({ path }) => path === MODEL_INDEX);
  const useful = files.filter(({ path }) => !UNUSED.test(path) && !path.startsWith("."));
  if (hasIndex) {
    // Weights beside the index are the whole model once more, in another layout.
    return withoutVariants(
      useful.filter(({ path }) => path.includes("/") || !WEIGHTS.test(path)),
    );
  }
  const weights = useful.filter(({ path }) => WEIGHTS.test(path));
  if (weights.length > 1 && !isSharded(weights)) {
    throw new RangeError(
      `Cannot fetch ${id}: it holds ${weights.length} weight files; choose with --include, or name one as ${id}:FILE, from ${
        list(weights.map(({ path, size }) => `${path} (${(size / 1e9).toFixed(2)} GB)`))
      }`,
    );
  }
  return useful;
}

/** The parts of one model: `name-00001-of-00003.safetensors`. */
function isSharded(files: readonly HubFile[]): boolean {
  const stems = files.map(({ path }) => /^(.*)-\d{5}-of-\d{5}\.\w+$/.exec(path)?.[1]);
  return stems[0] !== undefined && stems.every((stem) => stem === stems[0]);
}

/** Files without those in a precision of their own, where the folder has the plain ones too. */
function withoutVariants(files: readonly HubFile[]): HubFile[] {
  const folder = (path: string) => path.slice(0, path.lastIndexOf("/") + 1);
  const plain = new Set(
    files.filter(({ path }) => WEIGHTS.test(path) && !VARIANT.test(path))
      .map(({ path }) => folder(path)),
  );
  return files.filter(({ path }) => !VARIANT.test(path) || !plain.has(folder(path)));
}

/** Shell patterns as the Hugging Face tools read them: `*` crosses folders. */
function toRegExp(pattern: string): RegExp {
  const whole = pattern.endsWith("/") ? `${pattern}*` : pattern;
  const source = whole.replaceAll(/\[!?[^\]]{1,30}\]|[*?]|[^*?[]+|\[/g, (part) => {
    if (part === "*") return ".*";
    if (part === "?") return ".";
    if (part.length > 1 && part.startsWith("[")) {
      return `[${part.slice(1, -1).replace(/^!/, "^").replaceAll("\\", "\\\\")}]`;
    }
    return RegExp.escape(part);
  });
  return new RegExp(whole.includes("/") ? `^${source}$` : `(?:^|/)${source}$`);
}

function list(names: readonly string[]): string {
  const shown = names.slice(0, 20).join(", ");
  return names.length > 20 ? `${shown} and ${names.length - 20} more` : shown;
}
