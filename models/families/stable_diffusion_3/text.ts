/** What Stable Diffusion 3 reads of prompts: the states of two CLIPs side by side, and behind them those of T5. */
import { concat, gather, type Inputs, slice, type Tensor } from "../../../runtime/mod.ts";
import type { Session } from "../../memory/session.ts";
import { chunkedPrompts, type PromptTokens, promptTowers } from "../../pipeline/chunked_prompts.ts";
import { cutOf } from "../../pipeline/cut_prompts.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import type { CutPrompt, PipelineRequest } from "../../pipeline/types.ts";
import { parsePrompt, type PromptSyntax } from "../../prompt_syntax/parse_prompt.ts";
import { clipPromptEncoder } from "../../text_encoders/clip_prompt.ts";
import { t5TextEncoder } from "../../text_encoders/t5.ts";
import type { Sd3Parts } from "./config.ts";
import { sd3Context } from "./transformer.ts";

export interface Sd3TextShape {
  readonly prompts: number;
  /** Places of all texts that CLIP reads of a prompt. */
  readonly clipRows: number;
  /** Tokens of T5, padding among them, or of the zeros in its place. */
  readonly t5Rows: number;
  readonly clipSkip: number;
  readonly syntax: PromptSyntax;
}

/** CLIP reads one text of a plain prompt, as in diffusers, and else as many as there are; T5 reads no weights. */
export function sd3Prompts(
  prompts: readonly string[],
  { promptSyntax: syntax = "plain", loras }: PipelineRequest,
  parts: Sd3Parts,
  maxLength: number,
): PromptTokens {
  const { thirdTokenizer: t5 } = parts;
  const clip = chunkedPrompts(
    prompts,
    syntax,
    promptTowers(parts, loras),
    syntax === "plain" ? parts.textEncoder.config.max_position_embeddings - 2 : maxLength,
  );
  if (!t5) return { ...clip, maxLength };
  const cut: CutPrompt[] = [];
  const thirdTokens = prompts.map((prompt, i) => {
    const kind = i === 0 ? "prompt" : "negative_prompt";
    const text = parsePrompt(prompt, syntax)
      .map((piece) => (piece === "break" ? " " : piece.text)).join("");
    const onCut = (rest: readonly number[]) =>
      void cut.push(cutOf(t5, kind, maxLength, rest.length, rest));
    return t5.encode(text, { maxLength, onCut });
  });
  return { ...clip, thirdTokens, maxLength, cut };
}

interface Sd3Prompt {
  /** [1, text tokens, dim] */
  readonly context: Tensor;
  /** What a ControlNet makes of it, likewise. */
  readonly controlContext: Tensor | undefined;
  /** Both CLIPs' vectors, [1, pooled_projection_dim]. */
  readonly pooled: Tensor;
}

export function traceText(
  session: Session,
  parts: Sd3Parts,
  { prompts, clipRows, t5Rows, clipSkip, syntax }: Sd3TextShape,
  controlContext: ((states: Tensor) => Tensor | undefined) | undefined,
): PromptEncoder<Inputs, readonly Sd3Prompt[]> {
  const { transformer: { config, weights: { root } }, textEncoder, textEncoder2 } = parts;
  const towerOf = (
    { config, weights }: Sd3Parts["textEncoder"],
    tokenizer: Sd3Parts["tokenizer"],
  ) =>
    clipPromptEncoder({ config, weights }, tokenizer, {
      skippedLayers: clipSkip + 1,
      isNormed: false,
      isPooled: true,
      mayLackProjection: true,
      syntax,
      embeddings: parts.embeddings.tower(config),
    });
  const { textEncoder3, thirdTokenizer } = parts;
  const third = textEncoder3 && {
    encoder: t5TextEncoder(textEncoder3, thirdTokenizer!.padId, { seesPadding: true }),
    rows: t5Rows,
  };
  const size = { prompts, rows: clipRows };
  return new PromptEncoder(session, towerOf(textEncoder, parts.tokenizer), size, {
    pooled: towerOf(textEncoder2, parts.pooledTokenizer!.tokenizer),
    pooledRows: clipRows,
    third,
    trace({ states, pooled, third }, graph): Sd3Prompt[] {
      const widths = [textEncoder, textEncoder2].map(({ config }) => config.hidden_size);
      const towers = [states, pooled!].map((all, i) => splitPooled(all, clipRows, widths[i]!));
      const zeros = (...shape: number[]) =>
        graph.constant("zeros", shape, "f32", new Float32Array(shape.reduce((a, b) => a * b)));
      const width = config.joint_attention_dim;
      const rest = width - widths[0]! - widths[1]!;
      const joined = towers.map(({ states }) => states);
      const clip = rest > 0 ? [...joined, zeros(prompts, clipRows, rest)] : joined;
      const seen = concat(clip, -1);
      // Without T5 the reference has zeros, of which a layer makes the same each.
      const places = () =>
        graph.constant("t5", [prompts, t5Rows], "u32", new Uint32Array(prompts * t5Rows));
      const joint = (embed: (states: Tensor) => Tensor | undefined) => {
        const tokens = embed(seen);
        const others = embed(third ?? zeros(1, width));
        return tokens && concat([tokens, third ? others! : gather(others!, places())], 1);
      };
      const contexts = joint((states) => sd3Context(config, root, states))!;
      const controls = controlContext && joint(controlContext);
      const vectors = concat(towers.map(({ vectors }) => vectors), -1);
      return Array.from({ length: prompts }, (_, i) => ({
        context: ofPrompt(contexts, i),
        controlContext: controls && ofPrompt(controls, i),
        pooled: ofPrompt(vectors, i),
      }));
    },
  });
}

/** States, [prompts, rows, width], and the vectors behind them. */
function splitPooled(all: Tensor, rows: number, width: number) {
  const states = slice(all, 1, 0, rows * width).reshape(all.dim(0), rows, width);
  return { states, vectors: slice(all, 1, rows * width, all.dim(1)) };
}
