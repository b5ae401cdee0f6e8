/** Prompts of families whose text encoders read short texts: each prompt is as many texts as it needs. */
import { alignChunks, type ChunkedPrompt, chunkPrompt } from "../prompt_syntax/chunks.ts";
import type { PromptSyntax } from "../prompt_syntax/parse_prompt.ts";
import type { ClipTextConfig } from "../text_encoders/clip_text.ts";
import type { AppliedLora } from "../lora/types.ts";
import { wordsInUse } from "../lora/words.ts";
import type { EmbeddingFolder } from "../textual_inversion/embedding_folder.ts";
import { type KnownWords, splitEmbeddings } from "../textual_inversion/prompt_words.ts";
import type { Tokenizer } from "../tokenizers/mod.ts";
import type { PromptSizes } from "./family.ts";
import { cutOf } from "./cut_prompts.ts";
import type { CutPrompt } from "./types.ts";
import type { Work } from "./work.ts";

/** What the pipeline knows of a request's prompts before anything is computed. */
export interface PromptTokens
  extends
    PromptSizes,
    Pick<Work, "tokens" | "weights" | "pooledTokens" | "pooledWeights" | "thirdTokens"> {
  readonly cut: readonly CutPrompt[];
}

/** A text encoder's tokenizer, and the places that its texts have. */
export interface TowerTokenizer {
  readonly tokenizer: Tokenizer;
  readonly maxLength: number;
  readonly embeddings: KnownWords;
}

interface ClipParts {
  readonly tokenizer: Tokenizer;
  readonly pooledTokenizer?: Pick<TowerTokenizer, "tokenizer" | "maxLength"> | undefined;
  readonly textEncoder: { readonly config: ClipTextConfig };
  readonly textEncoder2?: { readonly config: ClipTextConfig } | undefined;
  readonly embeddings: EmbeddingFolder;
}

/** What a model's one or two CLIP towers read of prompts, beside LoRAs that may bring words. */
export function promptTowers(
  { tokenizer, pooledTokenizer, textEncoder, textEncoder2, embeddings }: ClipParts,
  loras?: readonly AppliedLora[],
): [TowerTokenizer, TowerTokenizer?] {
  const { config } = textEncoder;
  const maxLength = config.max_position_embeddings;
  const words = wordsInUse(loras);
  const wordsOf = (config: ClipTextConfig) => embeddings.tower(config).beside(words);
  const own = { tokenizer, maxLength, embeddings: wordsOf(config) };
  if (!pooledTokenizer || !textEncoder2) return [own];
  return [own, { ...pooledTokenizer, embeddings: wordsOf(textEncoder2.config) }];
}

/**
 * Ids and weights of prompts, for one text encoder or two, all in the same number of texts. A prompt has at most
 * `maxLength` tokens.
 */
export function chunkedPrompts(
  prompts: readonly string[],
  syntax: PromptSyntax,
  towers: readonly [TowerTokenizer, TowerTokenizer?],
  maxLength: number,
): PromptTokens {
  const chunked = towers.filter((tower) => tower !== undefined).map((tower) => {
    const maxChunks = Math.ceil(maxLength / (tower.maxLength - 2));
    const { tokenizer, maxLength: places, embeddings } = tower;
    const splitWords = splitEmbeddings(embeddings);
    const options = { syntax, maxChunks, maxTokens: maxLength, places, tokenizer, splitWords };
    return { options, all: prompts.map((prompt) => chunkPrompt(prompt, options)) };
  });
  const count = Math.max(
    ...chunked.flatMap(({ all }) => all.map(({ chunks }) => chunks.length)),
  );
  const [own, pooled] = chunked.map(({ options, all }) => {
    const texts = alignChunks(all.map(({ chunks }) => chunks), count, options);
    return {
      tokens: texts.map((chunks) => chunks.flatMap(({ ids }) => ids)),
      weights: texts.map((chunks) => chunks.flatMap(({ weights }) => weights)),
    };
  });
  const [{ all, options }] = chunked as [typeof chunked[0]];
  return {
    ...own!,
    maxLength,
    pooledTokens: pooled?.tokens,
    pooledWeights: pooled?.weights,
    lengths: own!.tokens.map(({ length }) => length),
    cut: all.flatMap((prompt, i) => cutOfChunks(prompt, i, options.tokenizer)),
  };
}

function cutOfChunks({ read, rest }: ChunkedPrompt, i: number, tokenizer: Tokenizer): CutPrompt[] {
  if (rest.length === 0) return [];
  const words = rest.filter((id) => id < tokenizer.vocabSize);
  return [cutOf(tokenizer, i === 0 ? "prompt" : "negative_prompt", read, rest.length, words)];
}

/** Places of all texts of the longest prompt, for the shape of a request. */
export function chunkRows(lengths: readonly number[], places: number): number {
  return places * Math.max(1, Math.ceil(Math.max(...lengths) / places));
}
