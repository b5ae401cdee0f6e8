/**
 * Tokenizers inside of files of weights: a vocabulary in GGUF, or a SentencePiece model as a tensor (ComfyUI's T5).
 * Source of the keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, "Tokenizer".
 */

import type { Checkpoint } from "../../runtime/mod.ts";
import type { AddedToken } from "./added_tokens.ts";
import {
  bytePairTokenizer,
  readSentencePieceModel,
  sentencePieceTokenizer,
} from "./sentencepiece_model.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { readVocabularyAndMerges } from "./vocabulary_and_merges.ts";

const KEY = "tokenizer.ggml";

/** What a token is; the numbers are those of SentencePiece. */
const TokenType = { normal: 1, control: 3, userDefined: 4, byte: 6 };

/** Far more than any SentencePiece model has. */
const MAX_MODEL_BYTES = 64 * 2 ** 20;

const PRE_TOKENIZERS: Readonly<Record<string, string>> = { qwen2: "Qwen2Tokenizer" };

export function hasTokenizer(checkpoint: Checkpoint): boolean {
  return checkpoint.metadata.has(`${KEY}.model`) || modelTensor(checkpoint) !== undefined;
}

export function readEmbeddedTokenizer(checkpoint: Checkpoint): Tokenizer {
  const tensor = modelTensor(checkpoint);
  if (tensor !== undefined) return readTensor(checkpoint, tensor);
  const kind = checkpoint.metadata.get(`${KEY}.model`);
  if (kind === "gpt2") return readBpe(checkpoint);
  if (kind === "t5") return readPieces(checkpoint, sentencePieceTokenizer);
  if (kind === "llama") return readPieces(checkpoint, bytePairTokenizer);
  throw new TypeError(
    `Cannot read the tokenizer of ${checkpoint.path}: its kind is ${
      JSON.stringify(kind ?? "").slice(0, 80)
    }; supported are gpt2, t5 and llama, name another with --tokenizer`,
  );
}

function modelTensor(checkpoint: Checkpoint): string | undefined {
  return [...checkpoint.names].find((name) => /(?:^|\.)spiece_model$/.test(name));
}

function readTensor(checkpoint: Checkpoint, name: string): Tokenizer {
  const { byteLength } = checkpoint.find(name)!;
  if (byteLength > MAX_MODEL_BYTES) {
    throw new TypeError(
      `Cannot read the tokenizer of ${checkpoint.path}: it has ${byteLength} bytes, at most ${MAX_MODEL_BYTES} are allowed`,
    );
  }
  const bytes = new Uint8Array(byteLength);
  checkpoint.read(name, 0, bytes);
  return readSentencePieceModel(bytes, checkpoint.path);
}

function readBpe(checkpoint: Checkpoint): Tokenizer {
  const { path, metadata } = checkpoint;
  const pre = metadata.get(`${KEY}.pre`);
  const className = typeof pre === "string" && Object.hasOwn(PRE_TOKENIZERS, pre)
    ? PRE_TOKENIZERS[pre]!
    : undefined;
  if (className === undefined) {
    throw new TypeError(
      `Cannot read the tokenizer of ${path}: it cuts text as ${
        JSON.stringify(pre ?? "nothing").slice(0, 80)
      }; supported is ${Object.keys(PRE_TOKENIZERS).join(", ")}, name another with --tokenizer`,
    );
  }
  const tokens = textsOf(checkpoint, "tokens");
  const types = numbersOf(checkpoint, "token_type", tokens.length);
  const vocabulary: Record<string, number> = Object.create(null);
  const addedTokens: AddedToken[] = [];
  tokens.forEach((content, id) => {
    if (types[id] === TokenType.normal) vocabulary[content] = id;
    if (types[id] !== TokenType.control && types[id] !== TokenType.userDefined) return;
    const special = types[id] === TokenType.control;
    const plain = { singleWord: false, lstrip: false, rstrip: false, normalized: false };
    addedTokens.push({ ...plain, id, content, special });
  });
  const eos = tokens[idOf(checkpoint, "eos_token_id") ?? -1];
  const pad = tokens[idOf(checkpoint, "padding_token_id") ?? -1] ?? eos;
  const special = { className, addedTokens, ...(eos !== undefined && { eos, pad: pad ?? eos }) };
  const merges = textsOf(checkpoint, "merges").join("\n");
  return readVocabularyAndMerges(vocabulary, merges, path, special);
}

/** Pieces with their scores, of either kind of SentencePiece. */
function readPieces(checkpoint: Checkpoint, make: typeof sentencePieceTokenizer): Tokenizer {
  const { path, metadata } = checkpoint;
  const pieces = textsOf(checkpoint, "tokens");
  const types = Array.from(numbersOf(checkpoint, "token_type", pieces.length));
  const charsmap = checkpoint.readArray(`${KEY}.precompiled_charsmap`);
  const isOn = (key: string) => metadata.get(`${KEY}.${key}`) !== false;
  const eos = pieces[idOf(checkpoint, "eos_token_id") ?? -1];
  const pad = pieces[idOf(checkpoint, "padding_token_id") ?? -1];
  return make(
    {
      pieces,
      scores: numbersOf(checkpoint, "scores", pieces.length),
      types,
      byteFallback: types.includes(TokenType.byte),
      whitespaceAsSuffix: false,
      charsmap: charsmap === undefined ? new Uint8Array(0) : Uint8Array.from(charsmap as number[]),
      addDummyPrefix: isOn("add_space_prefix"),
      // Files of BPE models do not say so, and none of them does it.
      removeExtraWhitespaces: make === sentencePieceTokenizer && isOn("remove_extra_whitespaces"),
      escapeWhitespaces: true,
    },
    path,
    { ...(eos !== undefined && { eos }), ...(pad !== undefined && { pad }) },
  );
}

function idOf({ metadata }: Checkpoint, key: string): number | undefined {
  const id = metadata.get(`${KEY}.${key}`);
  return typeof id === "number" ? id : undefined;
}

function textsOf(checkpoint: Checkpoint, key: string): string[] {
  const texts = checkpoint.readArray(`${KEY}.${key}`);
  if (Array.isArray(texts)) return texts;
  throw new TypeError(`Cannot read the tokenizer of ${checkpoint.path}: it lacks ${KEY}.${key}`);
}

function numbersOf(checkpoint: Checkpoint, key: string, length: number): ArrayLike<number> {
  const numbers = checkpoint.readArray(`${KEY}.${key}`);
  if (numbers !== undefined && !Array.isArray(numbers) && numbers.length === length) return numbers;
  throw new TypeError(
    `Cannot read the tokenizer of ${checkpoint.path}: ${KEY}.${key} must have ${length} numbers`,
  );
}
