/**
 * T5 v1.1's encoder: UMT5's, but that all layers have the position bias of the first.
 *
 * Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer";
 * transformers `T5EncoderModel`, whose module names are the weight names.
 */
import { z } from "zod";
import { f32, u32 } from "../../runtime/mod.ts";
import type { TextEncoder, TextEncoderParts } from "./text_encoder.ts";
import { FAR_ENOUGH, isFarEnough, T5_FIELDS, umt5Embeddings, umt5Encoder } from "./umt5.ts";

/** What `config.json` of the encoder may say; defaults are those of transformers' `T5Config`. */
export const T5_CONFIG = z.object({
  ...T5_FIELDS,
  model_type: z.literal("t5").default("t5"),
  vocab_size: z.int().positive().default(32128),
  d_ff: z.int().positive().default(2048),
  num_layers: z.int().positive().default(6),
  num_heads: z.int().positive().default(8),
  feed_forward_proj: z.literal("gated-gelu", "only T5 v1.1 (gated-gelu) is supported"),
}).refine(isFarEnough, FAR_ENOUGH);

/**
 * T5 for pipelines that pad prompts.
 *
 * @param seesPadding whether tokens attend the padding, as in FLUX.1; the states of padding are given in any case
 */
export function t5TextEncoder(
  { config, weights }: TextEncoderParts<z.output<typeof T5_CONFIG>>,
  padId: number,
  { seesPadding }: { readonly seesPadding: boolean },
): TextEncoder {
  return {
    inputs: (prompts, rows) => ({
      embeddings: f32(prompts, rows, config.d_model),
      ...!seesPadding && { lengths: u32(prompts) },
    }),
    trace: ({ embeddings, lengths }, graph) =>
      umt5Encoder(graph, config, weights.root, {
        embeddings: embeddings!,
        ...(lengths && { lengths }),
      }),
    values: (tokens, rows) => {
      const ids = tokens.flatMap((own) => [
        ...own,
        ...new Array<number>(rows - own.length).fill(padId),
      ]);
      return {
        embeddings: umt5Embeddings(config, weights, ids),
        ...!seesPadding && { lengths: tokens.map(({ length }) => length) },
      };
    },
  };
}
