/** Tokenizers of text encoders, from the files that models ship. */

import { describeFileError, fileInfo, join, NotFoundError, readFile } from "../../platform/mod.ts";
import { readJsonFile } from "../../hub/json_file.ts";
import { BYTE_TOKENIZER, byteTokenizer } from "./bytes.ts";
import { readSentencePieceModel } from "./sentencepiece_model.ts";
import { readTokenizerConfig } from "./special_tokens.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { readTokenizerJson } from "./tokenizer_json.ts";
import { readVocabularyAndMerges } from "./vocabulary_and_merges.ts";

export type { AddedToken } from "./added_tokens.ts";
export { byteTokenizer } from "./bytes.ts";
export { qwen3ChatPrompt, requireQwenChat } from "./qwen3_chat.ts";
export { readSentencePieceModel } from "./sentencepiece_model.ts";
export { readTokenizerConfig, type SpecialTokens } from "./special_tokens.ts";
export type { EncodeOptions, Tokenizer } from "./tokenizer.ts";
export { readTokenizerJson } from "./tokenizer_json.ts";
export { readVocabularyAndMerges } from "./vocabulary_and_merges.ts";

const MODEL_FILES = ["spiece.model", "tokenizer.model", "sentencepiece.bpe.model"];

/** Far more than any vocabulary has. */
const MAX_MODEL_BYTES = 64 * 2 ** 20;

/** Loads a folder's `tokenizer.json`, `vocab.json` and `merges.txt`, or SentencePiece model, and its settings; of bytes, these alone. */
export async function loadTokenizer(folder: string): Promise<Tokenizer> {
  const configPath = join(folder, "tokenizer_config.json");
  const config = await ifThere(readJsonFile(configPath));
  const special = config === undefined ? {} : readTokenizerConfig(config, configPath);
  const jsonPath = join(folder, "tokenizer.json");
  const json = await ifThere(readJsonFile(jsonPath));
  if (json !== undefined) return readTokenizerJson(json, jsonPath, special);
  if (special.className === BYTE_TOKENIZER) return byteTokenizer(special, configPath);
  const vocabularyPath = join(folder, "vocab.json");
  const mergesPath = join(folder, "merges.txt");
  const merges = await readModelFile(mergesPath);
  const vocabulary = merges && await ifThere(readJsonFile(vocabularyPath));
  if (merges && vocabulary !== undefined) {
    return readVocabularyAndMerges(
      vocabulary,
      decodeText(merges, mergesPath),
      vocabularyPath,
      special,
    );
  }
  for (const name of MODEL_FILES) {
    const path = join(folder, name);
    const bytes = await readModelFile(path);
    if (bytes !== undefined) return readSentencePieceModel(bytes, path, special);
  }
  throw new NotFoundError(
    `Cannot load a tokenizer: ${folder} has none of tokenizer.json, vocab.json with merges.txt, ${
      MODEL_FILES.join(", ")
    }; ` +
      "the download may be incomplete",
  );
}

async function readModelFile(path: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  try {
    const { size, isFile } = await fileInfo(path);
    if (!isFile) throw new Error("it is not a file");
    if (size > MAX_MODEL_BYTES) {
      throw new Error(`it has ${size} bytes, and at most ${MAX_MODEL_BYTES} are allowed`);
    }
    return await readFile(path);
  } catch (cause) {
    if (cause instanceof NotFoundError) return undefined;
    throw new TypeError(`Cannot read ${path}: ${describeFileError(cause)}`, { cause });
  }
}

function decodeText(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new TypeError(`Cannot read ${path}: it is not UTF-8 text`, { cause });
  }
}

async function ifThere<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}
