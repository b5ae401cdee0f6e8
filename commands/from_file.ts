/** `denoise generate --from`: the recipe in an image's file gives what flags leave out. */

import { basename } from "node:path";
import { stat } from "node:fs/promises";
import {
  checkSize,
  completeSettings,
  FieldError,
  inspectImageFile,
  maskedRules,
  NO_LIMITS,
  type RecipeLora,
  resolveTask,
  SETTING_FIELDS,
  SETTING_NAMES,
  type SettingField,
} from "../generation/mod.ts";
import type { ModelInfo, SamplingSettings } from "../mod.ts";
import { shorten } from "../generation/texts.ts";
import { bundledLoraFiles } from "../models/lora/bundled.ts";
import { flagName } from "./field_flags.ts";
import type { GenerateFlags } from "./flags.ts";
import type { Media, readOptions } from "./generate_flags.ts";

export interface FilledFlags {
  readonly flags: GenerateFlags;
  /** Flags that have their value from the file. */
  readonly filled: ReadonlySet<string>;
  /** What the file says and is not used, in words. */
  readonly unused: readonly string[];
}

export async function fillFromFile(flags: GenerateFlags): Promise<FilledFlags> {
  const { from } = flags;
  if (from === undefined) return { flags, filled: new Set(), unused: [] };
  const { recipe } = await inspectImageFile(from);
  if (!recipe) {
    throw new Error(
      `Cannot use --from ${from}: the file does not say how it was made; name one that was made by denoise, ` +
        "AUTOMATIC1111 or ComfyUI",
    );
  }
  const given = (["image", "mask", "control", "reference"] as const)
    .filter((name) => flags[name] !== undefined);
  const unused = recipe.unused
    .filter((words) => !given.some((name) => words.endsWith(`, which --${name} may name`)));
  const all: GenerateFlags = { ...flags };
  const filled = new Set<string>();
  const fill = <Name extends string & keyof GenerateFlags>(
    name: Name,
    value: GenerateFlags[Name],
  ) => {
    if (value === undefined || flags[name] !== undefined) return;
    all[name] = value;
    filled.add(name);
  };
  const { prompt, model, seed, width, height, settings } = recipe;
  fill("prompt", prompt);
  fill("seed", seed === undefined ? undefined : [seed]);
  if (flags.size === undefined && flags.width === undefined && flags.height === undefined) {
    fill("width", width);
    fill("height", height);
  }
  for (const name of SETTING_NAMES) {
    const value = settings[name];
    if (value === undefined || flags[name] !== undefined) continue;
    if (conflicts({ ...all, [name]: value })) unused.push(`${flagName(name)} ${value}`);
    else fill(name, value as GenerateFlags[typeof name]);
  }
  if (flags.lora === undefined) {
    const here = await Promise.all(
      recipe.loras.map(async (lora) => flags.url !== undefined || await isHere(lora)),
    );
    const loras = recipe.loras.filter((_, index) => here[index]);
    if (loras.length > 0) fill("lora", loras as GenerateFlags["lora"]);
    const missing = recipe.loras.filter((_, index) => !here[index]);
    unused.push(...missing.map(({ path }) => `the LoRA ${shorten(path)}, which --lora may name`));
  }
  if (model !== undefined && !isSame(model, flags.modelPath)) {
    unused.push(`the model ${shorten(model)}, which --model-path may name`);
  }
  return { flags: all, filled, unused };
}

/** What `generate` asks the library for. */
type Options = Awaited<ReturnType<typeof readOptions>>;

/** Leaves out what a file gave and a model does not take. */
export function fitToModel<Given extends Options>(
  options: Given,
  { flags, filled }: FilledFlags,
  info: ModelInfo,
  media: Media,
): { options: Given; unused: string[] } {
  const fitted = { ...options };
  const unused: string[] = [];
  const drop = (name: keyof SamplingSettings, why: string) => {
    unused.push(why);
    delete fitted[name];
  };
  const { width = info.defaults.width, height = info.defaults.height } = fitted;
  if (filled.has("width")) {
    try {
      checkSize({ width, height }, info);
    } catch (error) {
      unused.push(`the size: ${reasonOf(error)}`);
      delete fitted.width;
      delete fitted.height;
    }
  }
  for (;;) {
    try {
      const query = {
        output: media === "video" ? "VIDEO" as const : "IMAGE" as const,
        hasImage: (options.images ?? []).length > 0,
        hasVideo: flags.video !== undefined,
        ...(options.taskType ? { taskType: options.taskType } : {}),
      };
      const rules = options.imageMask ? maskedRules(info) : info;
      const { idle } = completeSettings(fitted, resolveTask(query, info), rules, flagName);
      for (const [name, why] of idle) {
        if (filled.has(name)) drop(name, `${flagName(name)} ${fitted[name]}: ${why}`);
      }
      return { options: fitted, unused };
    } catch (error) {
      // Whatever else is wrong is told by what makes the result.
      if (!(error instanceof FieldError && filled.has(error.field))) {
        return { options: fitted, unused };
      }
      drop(error.field as keyof SamplingSettings, error.message);
    }
  }
}

function conflicts(flags: GenerateFlags): boolean {
  try {
    for (const name of SETTING_NAMES) {
      const value = flags[name];
      const row = SETTING_FIELDS[name] as SettingField<unknown>;
      if (value !== undefined) row.check(value, name, NO_LIMITS, flags);
    }
    return false;
  } catch (error) {
    if (error instanceof RangeError) return true;
    throw error;
  }
}

/** Whether a LoRA lies here; what a file names is not fetched, and no other machine is asked for it. */
async function isHere({ path }: RecipeLora): Promise<boolean> {
  if (Object.hasOwn(bundledLoraFiles(), path)) return true;
  if (/^[\\/]{2}/.test(path) || path.includes("\0")) return false;
  const found = await stat(path).catch(() => undefined);
  return found?.isFile() === true || found?.isDirectory() === true;
}

/** Names of models are told apart without folders and endings. */
function isSame(one: string, other: string): boolean {
  const plain = (name: string) => basename(name.replaceAll("\\", "/")).replace(/\.\w+$/, "");
  return plain(one).toLowerCase() === plain(other).toLowerCase();
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
