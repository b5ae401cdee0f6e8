/** CLIP for models of the Stable Diffusion kind: the states of prompts that may be several texts, with weights. */
import { concat, f32, slice, u32 } from "../../runtime/mod.ts";
import type { PromptSyntax } from "../prompt_syntax/parse_prompt.ts";
import type { Tokenizer } from "../tokenizers/mod.ts";
import {
  clipEmbeddings,
  clipEnd,
  clipFinalNorm,
  clipPooled,
  clipStates,
  type ClipTextConfig,
  type FurtherRows,
} from "./clip_text.ts";
import { weightedByMean, weightedFromEmpty } from "./prompt_weights.ts";
import { padded, type TextEncoder, type TextEncoderParts } from "./text_encoder.ts";

/** Which states of a tower a model sees. */
export interface ClipPromptOptions {
  /** How many of the last layers the states of tokens do not pass. */
  readonly skippedLayers: number;
  /** Whether they pass the final norm. */
  readonly isNormed: boolean;
  /** Whether each prompt's projected vector follows its states. */
  readonly isPooled: boolean;
  /** Whether a tower without a projection, as SD 3's first may be, gives the vector itself. */
  readonly mayLackProjection?: boolean;
  /** Whose weights the states of tokens have; a plain prompt has none. */
  readonly syntax: PromptSyntax;
  /** What ids beyond the vocabulary stand for. */
  readonly embeddings?: FurtherRows | undefined;
}

/**
 * Prompts are texts of all positions one after the other, [prompts, rows, hidden_size]; with the vector of the first text
 * behind them, [prompts, rows · hidden_size + projection_dim]. Weights change no vector.
 */
export function clipPromptEncoder(
  { config, weights: { root }, weights }: TextEncoderParts<ClipTextConfig>,
  tokenizer: Tokenizer,
  options: ClipPromptOptions,
): TextEncoder {
  const { skippedLayers, isNormed, isPooled, syntax, embeddings: learnt } = options;
  const { hidden_size: dim, max_position_embeddings: places, num_hidden_layers: count } = config;
  const isProjected = !options.mayLackProjection || root.has("text_projection.weight");
  const isWeighted = syntax !== "plain";
  const hasEmpty = syntax === "comfyui";
  return {
    inputs: (prompts, rows) => ({
      embeddings: f32(prompts, rows, dim),
      ...(isWeighted && { weights: f32(prompts * rows / places, places, 1) }),
      ...(hasEmpty && { empty: f32(1, places, dim) }),
      ...(isPooled && { ends: u32(prompts) }),
    }),
    trace: ({ embeddings, weights, empty, ends }) => {
      const [prompts, rows] = embeddings!.shape as [number, number, number];
      const own = embeddings!.reshape(-1, places, dim);
      const layers = [count - skippedLayers, ...(ends ? [count] : [])];
      const [seen, last] = clipStates(config, root, empty ? concat([own, empty], 0) : own, layers);
      const all = isNormed ? clipFinalNorm(config, root, seen!) : seen!;
      const texts = own.dim(0);
      const states = !weights
        ? all
        : empty
        ? weightedFromEmpty(slice(all, 0, 0, texts), weights, slice(all, 0, texts, texts + 1))
        : weightedByMean(all, weights);
      if (!ends) return states.reshape(prompts, rows, dim);
      const pooled = clipPooled(config, root, last!, ends, { isProjected });
      return concat([states.reshape(prompts, rows * dim), pooled], -1);
    },
    values: (tokens, rows, tokenWeights = []) => {
      const texts = padded(tokens, rows, tokenizer.padId);
      const weightsOf = (i: number) =>
        Array.from({ length: rows }, (_, k) => tokenWeights[i]?.[k] ?? 1);
      const empty = padded([tokenizer.encode("")], places, tokenizer.padId).flat();
      return {
        embeddings: clipEmbeddings(config, weights, texts.flat(), learnt),
        ...(isWeighted && { weights: texts.flatMap((_, i) => weightsOf(i)) }),
        ...(hasEmpty && { empty: clipEmbeddings(config, weights, empty) }),
        ...(isPooled && {
          ends: texts.map((ids, i) => i * rows + clipEnd(config, ids.slice(0, places))),
        }),
      };
    },
  };
}
