/** Byte-level BPE from `vocab.json` and `merges.txt`, which do not say how text is cut: the tokenizer's class does. */

import { excerpt } from "../../hub/json_file.ts";
import type { SpecialTokens } from "./special_tokens.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { readTokenizerJson } from "./tokenizer_json.ts";

/** How Qwen2 and Qwen3 cut text: contractions, words, single digits, punctuation, line ends, spaces. */
const QWEN2_PATTERN = "(?i:'s|'t|'re|'ve|'m|'ll|'d)" +
  String.raw`|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;

/** How CLIP cuts text: special tokens, contractions, words, single digits, punctuation. */
const CLIP_PATTERN = String.raw`<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d` +
  String.raw`|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`;

interface Stages {
  readonly model?: object;
  readonly [stage: string]: unknown;
}

const STAGES: Readonly<Record<string, Stages>> = {
  CLIPTokenizer: {
    model: { end_of_word_suffix: "</w>" },
    normalizer: {
      type: "Sequence",
      normalizers: [
        { type: "NFC" },
        { type: "Replace", pattern: { Regex: String.raw`\s+` }, content: " " },
        { type: "Lowercase" },
      ],
    },
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { Regex: CLIP_PATTERN }, behavior: "Removed", invert: true },
        { type: "ByteLevel", add_prefix_space: false },
      ],
    },
  },
  Qwen2Tokenizer: {
    normalizer: { type: "NFC" },
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { Regex: QWEN2_PATTERN }, behavior: "Isolated" },
        { type: "ByteLevel", add_prefix_space: false, use_regex: false },
      ],
    },
  },
};

export function readVocabularyAndMerges(
  vocabulary: unknown,
  merges: string,
  file: string,
  special: SpecialTokens,
): Tokenizer {
  const name = special.className?.replace(/Fast$/, "") ?? "";
  const stages = Object.hasOwn(STAGES, name) ? STAGES[name] : undefined;
  if (!stages) {
    throw new TypeError(
      `Cannot read ${file}: its tokenizer_config.json names ${
        special.className ? `the class ${excerpt(special.className)}` : "no class"
      }; without a tokenizer.json this program reads ${Object.keys(STAGES).join(", ")}`,
    );
  }
  const lines = merges.split(/\r?\n/).filter((line) => line !== "" && !line.startsWith("#version"));
  const model = { ...stages.model, type: "BPE", vocab: vocabulary, merges: lines };
  const frame = name === "CLIPTokenizer" ? clipFrame(vocabulary, special) : {};
  return readTokenizerJson({ ...stages, ...frame, model, added_tokens: [] }, file, special);
}

function clipFrame(vocabulary: unknown, special: SpecialTokens): object {
  const ids = vocabulary as Record<string, unknown> | null;
  const { bos = "<|startoftext|>", eos = "<|endoftext|>" } = special;
  return {
    post_processor: { type: "RobertaProcessing", cls: [bos, ids?.[bos]], sep: [eos, ids?.[eos]] },
  };
}
