/** Prompts as LongCat-Image reads them: what is quoted letter by letter. Source: diffusers `LongCatImagePipeline`. */
import { cutOf } from "../../pipeline/cut_prompts.ts";
import type { PromptTokens } from "../../pipeline/chunked_prompts.ts";
import type { Tokenizer } from "../../tokenizers/mod.ts";
import { IMAGE_TOKEN } from "../../text_encoders/seeing_qwen.ts";
import { beginning } from "../qwen_image/prompt.ts";

const SYSTEM = {
  describe:
    "As an image captioning expert, generate a descriptive text prompt based on an image content, suitable for input to a text-to-image model.",
  edit:
    "As an image editing expert, first analyze the content and attributes of the input image(s). Then, based on the user's editing instructions, clearly and precisely determine how to modify the given image(s), ensuring that only the specified parts are altered and all other aspects remain consistent with the original(s).",
};

interface Template {
  /** What stands before what the transformer sees. */
  readonly unseen: string;
  /** What it sees before the prompt. */
  readonly seen: string;
}

/** What stands before a prompt: of an edit the image, of which the text encoder makes so many tokens. */
export function templateOf(imageTokens: number | undefined): Template {
  return {
    unseen: beginning(SYSTEM[imageTokens === undefined ? "describe" : "edit"]),
    seen: imageTokens === undefined
      ? ""
      : `<|vision_start|>${IMAGE_TOKEN.repeat(imageTokens)}<|vision_end|>`,
  };
}

/** An apostrophe in a word is no quotation mark. */
const IN_WORD = /(?<=[a-zA-Z])'(?=[a-zA-Z])/g;
/** Stands for it meanwhile; of no text's characters, as Unicode keeps it for private use. */
const MARK = "\uE000";
const QUOTED = /('[^']*'|"[^"]*"|‘[^‘’]*’|“[^“”]*”)/;

interface PromptPart {
  readonly text: string;
  readonly isQuoted: boolean;
}

/** What is quoted, with its quotation marks, and what lies between. */
export function quotedParts(prompt: string): PromptPart[] {
  const marked = prompt.replaceAll(IN_WORD, MARK);
  return marked.split(QUOTED)
    .map((part, i) => ({ text: part.replaceAll(MARK, "'"), isQuoted: i % 2 === 1 }))
    .filter(({ text }) => text !== "");
}

/** Ids of prompts behind the template, of which at most `maxLength` are their own. */
export function promptTokens(
  prompts: readonly string[],
  { unseen, seen }: Template,
  tokenizer: Tokenizer,
  maxLength: number,
): PromptTokens {
  const idsOf = (text: string) => tokenizer.encode(text, { addSpecialTokens: false });
  const template = idsOf(unseen + seen);
  const own = prompts.map((prompt) =>
    quotedParts(prompt)
      .flatMap(({ text, isQuoted }) => (isQuoted ? [...text] : [text]))
      .flatMap((text) => [...idsOf(text)])
  );
  const tokens = own.map((ids) => [...template, ...ids.slice(0, maxLength)]);
  return {
    tokens,
    weights: undefined,
    pooledTokens: undefined,
    pooledWeights: undefined,
    thirdTokens: undefined,
    maxLength,
    lengths: tokens.map(({ length }) => length),
    cut: own.flatMap((ids, i) => {
      const rest = ids.slice(maxLength);
      const name = i === 0 ? "prompt" : "negative_prompt";
      return rest.length === 0 ? [] : [cutOf(tokenizer, name, maxLength, rest.length, rest)];
    }),
  };
}
