/**
 * Prompts in a conversation that asks to describe an image, or to change images; the transformer sees the prompt alone.
 * Source: diffusers `QwenImagePipeline`, `QwenImageEditPipeline` and `QwenImageEditPlusPipeline`, `prompt_template_encode`.
 */
import { IMAGE_TOKEN } from "../../text_encoders/seeing_qwen.ts";

const SYSTEM = {
  describe: "Describe the image by detailing the color, shape, size, texture, quantity, text, " +
    "spatial relationships of the objects and background:",
  edit: "Describe the key features of the input image (color, shape, size, texture, objects, " +
    "background), then explain how the user's text instruction should alter or modify the image. " +
    "Generate a new image that meets the user's requirements while maintaining consistency with " +
    "the original input where appropriate.",
};

/** What follows a prompt. */
export const PROMPT_END = "<|im_end|>\n<|im_start|>assistant\n";

/** What stands before a prompt of an image to be described. */
export const DESCRIBE_BEGINNING = beginning(SYSTEM.describe);

/** Tokens before the prompt with the tokenizers of published models; as many are dropped with any other. */
export const DROPPED_TOKENS = { describe: 34, edit: 64 };

/** Most tokens of a prompt, those of the template before it aside. */
export const MAX_PROMPT_TOKENS = 1024;

/** More than a prompt has around the tokens of an image. */
const TOKENS_AROUND_IMAGE = 12;

export function qwenImagePrompt(prompt: string): string {
  return conversation(SYSTEM.describe, prompt);
}

export function qwenEditPrompt(
  prompt: string,
  tokens: readonly number[],
  isCounted: boolean,
): string {
  const images = tokens.map((count, i) =>
    `${isCounted ? `Picture ${i + 1}: ` : ""}<|vision_start|>${
      IMAGE_TOKEN.repeat(count)
    }<|vision_end|>`
  );
  return conversation(SYSTEM.edit, images.join("") + prompt);
}

export function editTemplateTokens(tokens: readonly number[]): number {
  const shown = tokens.reduce((sum, count) => sum + count + TOKENS_AROUND_IMAGE, 0);
  return DROPPED_TOKENS.edit + shown;
}

function conversation(system: string, prompt: string): string {
  return beginning(system) + prompt + PROMPT_END;
}

/** What stands before a prompt. */
export function beginning(system: string): string {
  return `${systemMessage(system)}<|im_start|>user\n`;
}

export function systemMessage(text: string): string {
  return `<|im_start|>system\n${text}<|im_end|>\n`;
}
