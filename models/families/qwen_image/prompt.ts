/**
 * Prompts as the text encoder gets them: in a conversation that asks it to describe an image. The transformer does not
 * see what stands before the prompt.
 *
 * Source: diffusers `QwenImagePipeline`, `prompt_template_encode`.
 */

/** What the conversation begins with. */
const SYSTEM = "Describe the image by detailing the color, shape, size, texture, quantity, text, " +
  "spatial relationships of the objects and background:";

/** Tokens before the prompt with the tokenizers of published models; as many are dropped with any other. */
export const DROPPED_TOKENS = 34;

/** Most tokens of a prompt, those of the template before it aside. */
export const MAX_PROMPT_TOKENS = 1024;

/** The whole text. */
export function qwenImagePrompt(prompt: string): string {
  return `<|im_start|>system\n${SYSTEM}<|im_end|>\n<|im_start|>user\n${prompt}<|im_end|>\n<|im_start|>assistant\n`;
}
