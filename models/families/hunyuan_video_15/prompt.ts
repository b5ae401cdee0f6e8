/**
 * Prompts in a conversation that asks to describe a video, and what stands in quotes in them, for the encoder of glyphs.
 * Source: diffusers `HunyuanVideo15Pipeline`, its `system_message` and `extract_glyph_texts`.
 */
import type { PromptTokens } from "../../pipeline/chunked_prompts.ts";
import { cutOf } from "../../pipeline/cut_prompts.ts";
import type { CutPrompt } from "../../pipeline/types.ts";
import type { Tokenizer } from "../../tokenizers/mod.ts";

const ASPECTS = [
  "The main content and theme of the video.",
  "The color, shape, size, texture, quantity, text, and spatial relationships of the objects.",
  "Actions, events, behaviors temporal relationships, physical movement changes of the objects.",
  "background environment, light, style and atmosphere.",
  "camera angles, movements, and transitions used in the video.",
];

/** With the spaces with which the models were trained. */
const SYSTEM =
  "You are a helpful assistant. Describe the video by detailing the following aspects:" +
  ASPECTS.map((aspect, i) => ` ${" ".repeat(8)}${i + 1}. ${aspect}`).join("");

/** Tokens before the prompt with the tokenizer of published models; as many are dropped with any other. */
export const DROPPED_TOKENS = 108;

/** Tokens that prompts are cut to, those before them aside, and those of what is in quotes. */
export const MAX_PROMPT_TOKENS = 1000;
const MAX_GLYPH_TOKENS = 256;

function videoPrompt(prompt: string): string {
  const user = prompt === "" ? " " : prompt;
  return `<|im_start|>system\n${SYSTEM}<|im_end|>\n<|im_start|>user\n${user}<|im_end|>\n<|im_start|>assistant\n`;
}

const QUOTES: Readonly<Record<string, string>> = { '"': '"', "“": "”" };

/** What the encoder of glyphs reads of a prompt: every text in quotes once; nothing where there are no quotes. */
function glyphText(prompt: string): string | undefined {
  const texts = new Set(prompt.split("\n").flatMap(quotedIn));
  return texts.size === 0 ? undefined : Array.from(texts, (text) => `Text "${text}". `).join("");
}

/** The texts in quotes on a line. */
function quotedIn(line: string): string[] {
  const texts: string[] = [];
  const unclosed = new Set<string>();
  for (let i = 0; i < line.length; i++) {
    const closing = QUOTES[line[i]!];
    if (closing === undefined || unclosed.has(closing)) continue;
    const end = line.indexOf(closing, i + 1);
    if (end < 0) {
      unclosed.add(closing);
      continue;
    }
    texts.push(line.slice(i + 1, end));
    i = end;
  }
  return texts;
}

/** Ids of what the encoder of glyphs reads of a prompt; none where it reads nothing. */
export function glyphTokens(
  prompt: string,
  tokenizer: Tokenizer,
  onCut?: (rest: readonly number[]) => void,
): number[] {
  const text = glyphText(prompt);
  if (text === undefined) return [];
  return tokenizer.encode(text, { maxLength: MAX_GLYPH_TOKENS, ...(onCut && { onCut }) });
}

/** Ids of prompts for both encoders. */
export function videoPrompts(
  prompts: readonly string[],
  { tokenizer, glyphTokenizer }: {
    readonly tokenizer: Tokenizer;
    readonly glyphTokenizer: Tokenizer;
  },
  maxLength: number,
): PromptTokens {
  const cut: CutPrompt[] = [];
  const tell = (i: number, own: Tokenizer, read: number) => (rest: readonly number[]) =>
    void cut.push(cutOf(own, i === 0 ? "prompt" : "negative_prompt", read, rest.length, rest));
  const tokens = prompts.map((prompt, i) =>
    tokenizer.encode(videoPrompt(prompt), {
      maxLength: maxLength + DROPPED_TOKENS,
      onCut: tell(i, tokenizer, maxLength),
    })
  );
  const pooledTokens = prompts.map((prompt, i) =>
    glyphTokens(prompt, glyphTokenizer, tell(i, glyphTokenizer, MAX_GLYPH_TOKENS - 1))
  );
  return { tokens, pooledTokens, maxLength, lengths: tokens.map(({ length }) => length), cut };
}
