/** A component's `config.json` in the metadata of the file that holds its weights. */
import { isFile, join } from "../../platform/mod.ts";
import { type JsonObject, readJsonObject } from "../../hub/json_file.ts";
import type { Checkpoint } from "../../runtime/mod.ts";

const KEY = "denoise.config";

/** Longer ones are omitted: readers keep no such texts. */
const MAX_BYTES = 2048;

const CLASSES: ReadonlyMap<unknown, string> = new Map([
  ["qwen3", "Qwen3Model"],
  ["qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration"],
  ["t5", "T5EncoderModel"],
  ["umt5", "UMT5EncoderModel"],
  ["clip_text_model", "CLIPTextModel"],
  ["clip_vision_model", "CLIPVisionModel"],
]);

/** The class that a `config.json` names, or is of by its `model_type`; nothing where it says neither. */
export function classOf(config: JsonObject): string | undefined {
  const { _class_name: own, architectures, model_type: type } = config;
  const named = [own, ...Array.isArray(architectures) ? architectures : []]
    .find((name) => typeof name === "string");
  return named ?? CLASSES.get(type);
}

export async function classIn(folder: string): Promise<string | undefined> {
  const path = join(folder, "config.json");
  const isThere = await isFile(path);
  return isThere ? classOf(await readJsonObject(path)) : undefined;
}

export async function configMetadata(folder: string): Promise<Record<string, string>> {
  const path = join(folder, "config.json");
  const isThere = await isFile(path);
  if (!isThere) return {};
  // How the folder's own weights are quantised says nothing of the file's.
  const { quantization_config: _, ...config } = await readJsonObject(path);
  const text = JSON.stringify(config);
  return text.length <= MAX_BYTES ? { [KEY]: text } : {};
}

export function readSavedConfig({ metadata, path }: Checkpoint): JsonObject | undefined {
  const text = metadata.get(KEY);
  if (text === undefined) return undefined;
  try {
    const config = JSON.parse(String(text));
    if (typeof config === "object" && config !== null && !Array.isArray(config)) return config;
  } catch {
    // Said below.
  }
  throw new SyntaxError(`Cannot read "${path}": its ${KEY} is no JSON object; make the file again`);
}
