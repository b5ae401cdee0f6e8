/**
 * Tokenizers of text encoders, from the files that models ship.
 *
 * @module
 */

import { join } from "node:path";
import { readSentencePieceModel } from "./sentencepiece_model.ts";
import { readTokenizerConfig, type SpecialTokens } from "./special_tokens.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { readTokenizerJson } from "./tokenizer_json.ts";

export type { AddedToken } from "./added_tokens.ts";
export { readSentencePieceModel } from "./sentencepiece_model.ts";
export { readTokenizerConfig, type SpecialTokens } from "./special_tokens.ts";
export type { EncodeOptions, Tokenizer } from "./tokenizer.ts";
export { readTokenizerJson } from "./tokenizer_json.ts";

const MODEL_FILES = ["spiece.model", "tokenizer.model", "sentencepiece.bpe.model"];

/**
 * Loads the tokenizer in a folder: `tokenizer.json`, or else a SentencePiece model, with
 * `tokenizer_config.json` beside it where there is one.
 *
 * @param folder path of the folder
 * @throws {Deno.errors.NotFound} if the folder has no tokenizer file
 * @throws {TypeError} if a file is malformed, or has a model or a stage that is not supported
 */
export async function loadTokenizer(folder: string): Promise<Tokenizer> {
  const special = await loadConfig(join(folder, "tokenizer_config.json"));
  const jsonPath = join(folder, "tokenizer.json");
  const json = await readIfThere(jsonPath);
  if (json !== undefined) return readTokenizerJson(parseJson(json, jsonPath), jsonPath, special);
  for (const name of MODEL_FILES) {
    const path = join(folder, name);
    const bytes = await readIfThere(path);
    if (bytes !== undefined) return readSentencePieceModel(bytes, path, special);
  }
  throw new Deno.errors.NotFound(
    `Cannot load a tokenizer: ${folder} has none of tokenizer.json, ${MODEL_FILES.join(", ")}`,
  );
}

async function loadConfig(path: string): Promise<SpecialTokens> {
  const bytes = await readIfThere(path);
  return bytes === undefined ? {} : readTokenizerConfig(parseJson(bytes, path), path);
}

function parseJson(bytes: Uint8Array, path: string): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw new TypeError(`Cannot read ${path}: it is not JSON: ${(error as Error).message}`);
  }
}

async function readIfThere(path: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  try {
    return await Deno.readFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
