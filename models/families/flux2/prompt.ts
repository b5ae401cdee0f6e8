/** The conversation around a prompt, and the text encoder that reads it: Qwen3 of klein, Mistral Small of dev. */
import type { PipelineRequest } from "../../pipeline/types.ts";
import { guidedPrompts } from "../../pipeline/guidance.ts";
import { qwenTextEncoder } from "../../text_encoders/qwen.ts";
import type { TextEncoder } from "../../text_encoders/text_encoder.ts";
import { qwen3ChatPrompt } from "../../tokenizers/mod.ts";
import { type Flux2Parts, textLayers } from "./config.ts";

/** What dev was trained with before every prompt. Source: diffusers `pipelines/flux2/system_messages.py`. */
const SYSTEM_MESSAGE =
  "You are an AI that reasons about image descriptions. You give structured responses focusing on object relationships, object\n" +
  "attribution and actions without speculation.";

export function flux2Prompts(request: PipelineRequest, parts: Flux2Parts): string[] {
  const { settings, transformer, textEncoder } = parts;
  // Distilled models make their images without guidance, whatever is asked for; dev is told of it.
  const scale = transformer.config.guidance_embeds
    ? request.trueCfgScale ?? 1
    : settings.is_distilled
    ? 1
    : request.guidanceScale;
  const prompts = guidedPrompts(request, scale > 1);
  return textEncoder.config.model_type === "qwen3"
    ? prompts.map((text) => qwen3ChatPrompt(text, { hasThinkBlock: true }))
    : prompts.map((text) =>
      `[SYSTEM_PROMPT]${SYSTEM_MESSAGE}[/SYSTEM_PROMPT][INST]${text.replaceAll("[IMG]", "")}[/INST]`
    );
}

export function flux2TextEncoder({ textEncoder, tokenizer }: Flux2Parts): TextEncoder {
  const layers = textLayers(textEncoder.config);
  const options = textEncoder.config.model_type === "qwen3" ? {} : { isRaw: true, padsLeft: true };
  return qwenTextEncoder(textEncoder, tokenizer.padId, layers, options);
}
