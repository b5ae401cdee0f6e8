/** Which files of a repository a model needs: repositories often hold the same weights several times. */

import type { HubFile } from "./hub_client.ts";
import { MODEL_INDEXES } from "./model_index.ts";
import { isWeightFile, partOf, WEIGHTS } from "./parts.ts";

/** Weights for other programs, and what only shows a model off. */
const UNUSED =
  /\.(?:bin|ckpt|pt|pth|pkl|h5|msgpack|onnx|onnx_data|tflite|mlmodel|png|jpe?g|gif|webp|mp4|zip|tar|gz)$/i;
/** Weights of components in old repositories, which have no safetensors. */
const OLD_WEIGHTS = /^[^/]+\/(?:diffusion_pytorch_model|pytorch_model)\b[^/]*\.bin$/;
/** What checks pictures, which no pipeline here has, and further autoencoders of SDXL's repository. */
const UNUSED_FOLDERS = /^(?:safety_checker|vae_1_0|vae_decoder|vae_encoder)\//;
/** Precisions in the names of weight files, the most wanted first; plain names have none. */
const VARIANTS = ["", "bf16", "fp16", "fp32", "ema", "non_ema"];
/** Such as `model.fp16.safetensors`, `model.fp16-00001-of-00002.safetensors`, `model.safetensors.index.fp16.json`. */
const VARIANT = /\.(fp16|bf16|fp32|non_ema|ema)(?=[.-])/;

/** Chooses by patterns with `*`, `?` and `[…]` over paths or names, or else what a model needs. */
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
  const hasIndex = files.some(({ path }) => MODEL_INDEXES.includes(path));
  const own = files.filter(({ path }) => !UNUSED_FOLDERS.test(path) && !path.startsWith("."));
  const useful = own.filter(({ path }) => !UNUSED.test(path));
  if (hasIndex && !useful.some(({ path }) => path.includes("/") && WEIGHTS.test(path))) {
    const old = own.filter(({ path }) => OLD_WEIGHTS.test(path));
    return withoutVariants([...useful, ...old].filter(({ path }) => !WEIGHTS.test(path)));
  }
  if (hasIndex) {
    // Weights beside the index are the whole model once more, in another layout.
    return withoutVariants(useful.filter(({ path }) => path.includes("/") || !WEIGHTS.test(path)));
  }
  const weights = useful.filter(({ path }) => WEIGHTS.test(path));
  const [first] = weights;
  const parts = first && partOf(first.path)?.all;
  if (weights.length > 1 && !weights.every(({ path }) => parts?.includes(path))) {
    throw new RangeError(
      `Cannot fetch ${id}: it holds ${weights.length} weight files; choose with --include, or name one as ${id}:FILE, from ${
        list(weights.map(({ path, size }) => `${path} (${(size / 1e9).toFixed(2)} GB)`))
      }`,
    );
  }
  return useful;
}

/** How many times larger plain files may be than those of 16 bits beside them, which are taken then: they are f32. */
const MOST_LARGER = 1.5;

/**
 * Files of one precision in each folder: those of 16 bits if the plain ones are f32, else the plain ones, or the first of
 * those that are there.
 */
export function withoutVariants(files: readonly HubFile[]): HubFile[] {
  const folder = (path: string) => path.slice(0, path.lastIndexOf("/") + 1);
  const variantOf = (path: string) => VARIANT.exec(path)?.[1] ?? "";
  const weights = files.filter(({ path }) => isWeightFile(path));
  const kept = new Map<string, string>();
  for (const [own, all] of Map.groupBy(weights, ({ path }) => folder(path))) {
    const bytesOf = (variant: string) =>
      all.reduce((sum, { path, size }) => sum + (variantOf(path) === variant ? size : 0), 0);
    const there = VARIANTS.filter((variant) => bytesOf(variant) > 0);
    const half = there.find((variant) => variant === "bf16" || variant === "fp16");
    const isSingle = there[0] === "" && half && bytesOf("") > MOST_LARGER * bytesOf(half);
    kept.set(own, isSingle ? half : there[0] ?? "");
  }
  return files.filter(({ path }) => {
    const variant = kept.get(folder(path));
    const isOfWeights = isWeightFile(path) || /\.index(?:\.\w+)?\.json$/.test(path);
    return variant === undefined || !isOfWeights || variantOf(path) === variant;
  });
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
