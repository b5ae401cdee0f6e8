/**
 * Prompts in a conversation, in which references are shown before the prompt; the transformer sees all of it but the system's
 * message. Source: diffusers `QwenImage21Pipeline`.
 */
import type { Tokenizer } from "../../tokenizers/mod.ts";
import { IMAGE_TOKEN } from "../../text_encoders/seeing_qwen.ts";
import { beginning, systemMessage } from "../qwen_image/prompt.ts";

const SYSTEM = "Comprehend and analyze the provided prompt.";

/** An empty prompt leaves the encoder something to read; `tokens` are those of each reference. */
export function qwenImage21Prompt(prompt: string, tokens: readonly number[] = []): string {
  const shown = tokens.map((count, i) => textBefore(i) + IMAGE_TOKEN.repeat(count));
  return beginning(SYSTEM) + shown.join("") + (shown.length > 0 ? END : "") + (prompt || " ");
}

const END = "<|vision_end|>";

/** What stands between a reference and the one before. */
function textBefore(index: number): string {
  return `${index > 0 ? `${END} ` : ""}<image${index + 1}><|vision_start|>`;
}

/** Tokens of the system's message. */
export function droppedTokens(tokenizer: Tokenizer): number {
  return tokenizer.encode(systemMessage(SYSTEM)).length;
}

/** Tokens of the text before each of so many references, without the system's message. */
export function textsBefore(tokenizer: Tokenizer, references: number): number[] {
  const user = beginning(SYSTEM).slice(systemMessage(SYSTEM).length);
  return Array.from(
    { length: references },
    (_, i) => tokenizer.encode((i === 0 ? user : "") + textBefore(i)).length,
  );
}
