/** The way from text to ids and back, put together from its stages. */

import type { AddedTokens } from "./added_tokens.ts";
import type { PreTokenizer } from "./pre_tokenizers.ts";

export interface EncodeOptions {
  /** Most ids to return, special tokens among them; text beyond is cut off. No limit where absent. */
  readonly maxLength?: number;
  /** Whether to add what the model expects around a text, such as the end token; true by default. */
  readonly addSpecialTokens?: boolean;
  /** Called with the ids that `maxLength` cuts off, where it cuts off some. */
  readonly onCut?: (rest: readonly number[]) => void;
}

export interface Tokenizer {
  /** The ids of a text, not padded. Lone surrogates count as U+FFFD. */
  encode(text: string, options?: EncodeOptions): number[];
  /** The words that ids stand for, to be shown: without special tokens, and with white space that may differ. */
  decode(ids: Iterable<number>): string;
  /** Number of ids, added tokens included: one more than the highest. */
  readonly vocabSize: number;
  readonly padId: number;
  readonly eosId: number;
}

export type TemplatePart = readonly number[] | "text";

export interface PieceModel {
  encode(text: string): number[];
  bytesOf(piece: string): Iterable<number>;
}

interface TokenizerParts {
  readonly addedTokens: AddedTokens;
  readonly preTokenizer: PreTokenizer;
  readonly model: PieceModel;
  readonly template: readonly TemplatePart[];
  readonly pieces: readonly string[];
  readonly padId: number;
  readonly eosId: number;
}

export class PipelineTokenizer implements Tokenizer {
  readonly vocabSize: number;
  readonly padId: number;
  readonly eosId: number;
  readonly #parts: TokenizerParts;
  readonly #added = new Map<number, { content: string; special: boolean }>();

  constructor(parts: TokenizerParts) {
    this.#parts = parts;
    this.padId = parts.padId;
    this.eosId = parts.eosId;
    let size = parts.pieces.length;
    for (const token of parts.addedTokens.tokens) {
      this.#added.set(token.id, token);
      size = Math.max(size, token.id + 1);
    }
    this.vocabSize = size;
  }

  encode(text: string, options: EncodeOptions = {}): number[] {
    const { maxLength = Infinity, addSpecialTokens = true, onCut } = options;
    const template = addSpecialTokens ? this.#parts.template : ["text" as const];
    const special = template.reduce((n, part) => n + (part === "text" ? 0 : part.length), 0);
    if (!(maxLength >= special)) {
      throw new RangeError(
        `Cannot encode a text to at most ${maxLength} ids: special tokens alone take ${special}`,
      );
    }
    const ids = this.#encodeText(text);
    const rest = ids.length > maxLength - special ? ids.splice(maxLength - special) : [];
    if (rest.length > 0) onCut?.(rest);
    return template.flatMap((part) => part === "text" ? ids : part);
  }

  decode(ids: Iterable<number>): string {
    const { pieces, model } = this.#parts;
    const bytes = [...ids].flatMap((id) => {
      const added = this.#added.get(id);
      const piece = added?.content ?? pieces[id];
      if (piece === undefined) {
        throw new RangeError(`Cannot decode id ${id}: the vocabulary has ${this.vocabSize} ids`);
      }
      if (added?.special) return [];
      return [...added ? new TextEncoder().encode(piece) : model.bytesOf(piece)];
    });
    return new TextDecoder().decode(Uint8Array.from(bytes));
  }

  #encodeText(text: string): number[] {
    const { addedTokens, preTokenizer, model } = this.#parts;
    const ids: number[] = [];
    for (const segment of addedTokens.split(text.toWellFormed())) {
      if ("id" in segment) {
        ids.push(segment.id);
        continue;
      }
      for (const piece of preTokenizer(segment)) {
        for (const id of model.encode(piece.text)) ids.push(id);
      }
    }
    return ids;
  }
}
