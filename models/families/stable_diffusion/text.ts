/** What the UNet sees of prompts, by CLIP's one or two towers. */
import { concat, slice, type Tensor } from "../../../runtime/mod.ts";
import { ofPrompt } from "../../pipeline/prompts.ts";
import type { PromptSyntax } from "../../prompt_syntax/parse_prompt.ts";
import { clipPromptEncoder } from "../../text_encoders/clip_prompt.ts";
import type { TextEncoder } from "../../text_encoders/text_encoder.ts";
import type { SdParts } from "./config.ts";

/** The states, [1, rows, width], and the vector, [1, width], of a text encoder that gives both. */
export interface SummedUp {
  readonly states: Tensor;
  readonly vector: Tensor;
}

export interface ShownText {
  readonly encoder: TextEncoder;
  readonly pooled?: TextEncoder | undefined;
  /** Width of a prompt's vector. */
  readonly summary: number;
  /** The tokens of a prompt, [1, rows, width], and what sums it up, where the UNet sees that. */
  of(
    encoded: { readonly states: Tensor; readonly pooled?: Tensor | undefined },
    prompt: number,
  ): { readonly tokens: Tensor; readonly second?: SummedUp | undefined };
}

export function clipText(
  parts: SdParts,
  { rows, clipSkip, syntax }: {
    readonly rows: number;
    readonly clipSkip: number;
    readonly syntax: PromptSyntax;
  },
): ShownText {
  const { textEncoder, textEncoder2, transformer, tokenizer, pooledTokenizer } = parts;
  const isXl = transformer.config.addition_embed_type !== null;
  const { hidden_size: dim, projection_dim: summary } = (textEncoder2 ?? textEncoder).config;
  return {
    summary,
    encoder: clipPromptEncoder(textEncoder, tokenizer, {
      skippedLayers: clipSkip + (isXl ? 1 : 0),
      isNormed: !isXl,
      // The second encoder sums a prompt up, or the only one of a refiner.
      isPooled: isXl && !textEncoder2,
      syntax,
      embeddings: parts.embeddings.tower(textEncoder.config),
    }),
    pooled: textEncoder2 && clipPromptEncoder(textEncoder2, pooledTokenizer!.tokenizer, {
      skippedLayers: clipSkip + 1,
      isNormed: false,
      isPooled: true,
      syntax,
      embeddings: parts.embeddings.tower(textEncoder2.config),
    }),
    of({ states, pooled }, prompt) {
      if (!isXl) return { tokens: ofPrompt(states, prompt) };
      const second = summedUp(pooled ?? states, prompt, rows, dim);
      const own = pooled ? [ofPrompt(states, prompt)] : [];
      return { tokens: concat([...own, second.states], -1), second };
    },
  };
}

/** Of a prompt whose states, `rows` of `dim`, are followed by its vector. */
export function summedUp(encoded: Tensor, prompt: number, rows: number, dim: number): SummedUp {
  const own = ofPrompt(encoded, prompt);
  return {
    states: slice(own, 1, 0, rows * dim).reshape(1, rows, dim),
    vector: slice(own, 1, rows * dim, own.dim(1)),
  };
}
