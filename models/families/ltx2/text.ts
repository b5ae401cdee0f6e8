/** Prompts to the transformer's context: Gemma 3's states, projected while they are there, and then through the connectors. */
import { concat, f32, type InputSpec, type Tensor, u32 } from "../../../runtime/mod.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import type { Session } from "../../memory/session.ts";
import { gemma3Embeddings, gemma3Encoder } from "../../text_encoders/gemma3.ts";
import { padded, type TextEncoder } from "../../text_encoders/text_encoder.ts";
import { connectorSources, ltx2Connectors, ltx2Projection } from "./connectors.ts";
import { MODALITIES } from "./modulation.ts";
import type { Ltx2Parts } from "./parts.ts";
import { type Both, ltx2Context } from "./transformer.ts";

type TextParts = Pick<Ltx2Parts, "textEncoder" | "connectors" | "tokenizer">;

/** All states of a prompt together are as large as hundreds of its tokens; what they are projected to is not. */
function ltx2TextEncoder({ textEncoder, connectors, tokenizer }: TextParts): TextEncoder {
  const { config, weights } = textEncoder;
  return {
    inputs: (prompts, rows) => ({
      embeddings: f32(prompts, rows, config.hidden_size),
      mask: f32(prompts, rows, 1),
    }),
    trace: ({ embeddings, mask }, graph) => {
      const { config: projection, weights: { root } } = connectors;
      const states = gemma3Encoder(graph, config, weights.root, embeddings!);
      const prompts = Array.from({ length: embeddings!.dim(0) }, (_, i) => {
        const own = (x: Tensor) => ofPrompt(x, i);
        return ltx2Projection(projection, root, states.map(own), own(mask!));
      });
      return concat(prompts, 0);
    },
    values: (tokens, rows) => ({
      embeddings: gemma3Embeddings(config, weights, padded(tokens, rows, tokenizer.padId).flat()),
      mask: tokens.flatMap(({ length }) =>
        Array.from({ length: rows }, (_, i) => Number(i < length))
      ),
    }),
  };
}

/**
 * What each pass takes of the prompts, then what that of another transformer takes; `tokens` with registers are what the
 * transformer sees of each.
 */
export function traceLtx2Prompts(
  session: Session,
  parts: TextParts & Pick<Ltx2Parts, "transformer">,
  { prompts, rows, tokens }: {
    readonly prompts: number;
    readonly rows: number;
    readonly tokens: number;
  },
  second?: Ltx2Parts["transformer"] | undefined,
): PromptEncoder<Both<InputSpec>, Both<Tensor>[]> {
  const { connectors, transformer } = parts;
  const contextOf = ({ config, weights }: typeof transformer, text: Both<Tensor>) =>
    ltx2Context(config, weights.root, text);
  const { config } = connectors;
  const registers = {
    video: config.video_connector_num_learnable_registers,
    audio: config.audio_connector_num_learnable_registers,
  };
  return new PromptEncoder(session, ltx2TextEncoder(parts), { prompts, rows }, {
    inputs: { video: u32(prompts, tokens), audio: u32(prompts, tokens) },
    values: ({ tokens: ids }) => {
      const [video, audio] = MODALITIES.map((modality) =>
        ids.flatMap(({ length }) => connectorSources(length, rows, tokens, registers[modality]))
      ) as [number[], number[]];
      return { video, audio };
    },
    trace: ({ states, video, audio }) => {
      const texts = Array.from({ length: prompts }, (_, i) => {
        const sources = { video: ofPrompt(video, i), audio: ofPrompt(audio, i) };
        return ltx2Connectors(config, connectors.weights.root, ofPrompt(states, i), sources);
      });
      return [
        ...texts.map((text) => contextOf(transformer, text)),
        ...second ? [contextOf(second, texts[0]!)] : [],
      ];
    },
  });
}
