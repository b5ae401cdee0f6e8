/** What users see of prompts that are longer than what is read. */
import type { Tokenizer } from "../tokenizers/mod.ts";
import type { CutPrompt } from "./types.ts";

/** Tokens of what is not read that are shown, and characters of them. */
const SHOWN_TOKENS = 40;
const SHOWN_LENGTH = 80;

export function cutOf(
  tokenizer: Tokenizer,
  prompt: CutPrompt["prompt"],
  read: number,
  unread: number,
  rest: readonly number[],
): CutPrompt {
  return {
    prompt,
    read,
    tokens: read + unread,
    unread: firstWords(tokenizer.decode(rest.slice(0, SHOWN_TOKENS))),
  };
}

function firstWords(text: string): string {
  const words = text.trim().replace(/\s+/g, " ");
  return words.length > SHOWN_LENGTH ? `${words.slice(0, SHOWN_LENGTH).toWellFormed()}…` : words;
}
