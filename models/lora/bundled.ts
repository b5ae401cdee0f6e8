/** The bundled model, and the LoRAs that come with it. `tools/train/lora.py` trained them. */
import { fileURLToPath, PROGRAM_FOLDER } from "../../platform/mod.ts";

/** The name of the model that comes with the program. */
export const BUNDLED_MODEL = "bundled";

/** What it can draw, in a sentence for users; the page says it in its languages. */
export const BUNDLED_DRAWS =
  "The bundled model draws plain shapes, such as a red heart, and nothing else.";

/** Words for what it draws. */
export const BUNDLED_SHAPES =
  /\b(?:circle|square|triangle|star|heart|diamond|cross|ring|moon|flower)(?:e?s)?\b/i;

/** Its folder. */
export const BUNDLED_FOLDER: URL = new URL("models/bundled/", PROGRAM_FOLDER);
const FOLDER = new URL("adapters/", BUNDLED_FOLDER);

/** File of each, by the name that may stand where a path is asked for. */
export const BUNDLED_LORAS: Readonly<Record<string, URL>> = {
  outline: new URL("outline.safetensors", FOLDER),
  pastel: new URL("pastel.safetensors", FOLDER),
};

export function bundledLoraFiles(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(BUNDLED_LORAS).map(([name, url]) => [name, fileURLToPath(url)]),
  );
}
