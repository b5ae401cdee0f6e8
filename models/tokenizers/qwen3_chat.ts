/** Qwen3's chat template with a single message of a user. Source: `chat_template` of Qwen3, `add_generation_prompt=True`. */

import type { Tokenizer } from "./tokenizer.ts";

const [START, END] = ["<|im_start|>", "<|im_end|>"];

interface ChatOptions {
  /** Ends with an empty thought, as `enable_thinking=False` asks for; otherwise the model would begin to think. */
  readonly hasThinkBlock: boolean;
}

/** A conversation that begins with `prompt` and goes on with an answer. Special tokens in the prompt count as such. */
export function qwen3ChatPrompt(prompt: string, { hasThinkBlock }: ChatOptions): string {
  const thought = hasThinkBlock ? "<think>\n\n</think>\n\n" : "";
  return `${START}user\n${prompt}${END}\n${START}assistant\n${thought}`;
}

export function requireQwenChat(tokenizer: Tokenizer, path: string): void {
  const missing = [START, END].find((token) => tokenizer.encode(token).length !== 1);
  if (missing === undefined) return;
  throw new SyntaxError(
    `Cannot use "${path}": it has no token "${missing}", which Qwen's chat template needs; fetch the tokenizer of the model again`,
  );
}
