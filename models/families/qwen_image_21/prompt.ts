/** Prompts in a conversation; the transformer sees all of it but the system's message. Source: diffusers `QwenImage21Pipeline`. */
import type { Tokenizer } from "../../tokenizers/mod.ts";
import { beginning, systemMessage } from "../qwen_image/prompt.ts";

const SYSTEM = "Comprehend and analyze the provided prompt.";

/** An empty prompt leaves the encoder something to read. */
export function qwenImage21Prompt(prompt: string): string {
  return beginning(SYSTEM) + (prompt || " ");
}

/** Tokens of the system's message. */
export function droppedTokens(tokenizer: Tokenizer): number {
  return tokenizer.encode(systemMessage(SYSTEM)).length;
}
