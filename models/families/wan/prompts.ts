/** Prompts as the text encoder and cross-attention take them. */
import { adaptersAffecting } from "../../adapters/affecting.ts";
import type { AppliedAdapter } from "../../adapters/types.ts";
import { umt5Embeddings } from "../../text_encoders/umt5.ts";
import type { WanComponents } from "./components.ts";
import type { SessionTensors } from "./session_tensors.ts";

/**
 * Rows of the prompt tensors, one of them a pad unless the prompt fills them. They have few lengths, so that their
 * programs are shared: 16, 32, 64, …
 */
export function contextRows(longest: number, maxLength: number): number {
  return Math.max(16, 2 ** Math.ceil(Math.log2(Math.min(longest + 1, maxLength))));
}

/** Modules of the transformer that prompts go through before the first step. */
const CONTEXT_MODULES = /^condition_embedder\.text_embedder\.|\.attn2\.(to_k|to_v|norm_k)$/;

/** The adapters that decide what the text encoder gives; see {@linkcode adaptersAffecting}. */
export function textAdapters(adapters: readonly AppliedAdapter[]): unknown {
  return adaptersAffecting(adapters, ({ target }) => target === "text_encoder");
}

/** The adapters that decide the keys and values of cross-attention, beside those. */
export function contextAdapters(adapters: readonly AppliedAdapter[]): unknown {
  return adaptersAffecting(
    adapters,
    ({ target, module }) => target === "transformer" && CONTEXT_MODULES.test(module),
  );
}

/** Writes what the text encoder takes. */
export function writeTokens(
  tensors: SessionTensors,
  { config, weights }: WanComponents["textEncoder"],
  tokens: readonly (readonly number[])[],
): void {
  const [, rows, dim] = tensors.embeddings.shape as [number, number, number];
  const embeddings = new Float32Array(tokens.length * rows * dim);
  const mask = new Float32Array(tokens.length * rows);
  tokens.forEach((prompt, i) => {
    embeddings.set(umt5Embeddings(config, weights, prompt), i * rows * dim);
    mask.fill(1, i * rows, i * rows + prompt.length);
  });
  tensors.embeddings.write(embeddings);
  tensors.mask.write(mask);
  tensors.lengths.write(tokens.map(({ length }) => length));
}

/**
 * Writes what cross-attention takes beside the text encoder's states. The reference attends all `maxLength` rows;
 * those after the prompt are equal, so one row stands for them all with the logarithm of their number added to its
 * logit.
 */
export function writePadding(
  tensors: SessionTensors,
  tokens: readonly (readonly number[])[],
  maxLength: number,
): void {
  const pads = tokens.map(({ length }) => maxLength - length);
  const contextLengths = tokens.map(({ length }, i) => (pads[i]! > 0 ? length + 1 : length));
  const padLogits = pads.map((count) => (count > 0 ? Math.log(count) : 0));
  let at = 0;
  tensors.contextLengths.forEach((resident, pass) => {
    const end = at + resident.shape[0]!;
    resident.write(contextLengths.slice(at, end));
    tensors.padLogits[pass]!.write(padLogits.slice(at, end));
    at = end;
  });
}
