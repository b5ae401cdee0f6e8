/** Added tokens: strings that become one id wherever they occur in a text. */

import type { Normalizer } from "./normalizers.ts";
import { PieceTrie } from "./piece_trie.ts";

/** A token of `added_tokens`, or of `added_tokens_decoder` in a `tokenizer_config.json`. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Whether the token matches only where no letter, digit or underscore is next to it. */
  readonly singleWord: boolean;
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  readonly normalized: boolean;
  readonly special: boolean;
}

export type Segment =
  | { readonly id: number }
  | { readonly text: string; readonly first: boolean };

const WORD = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]";
const ENDS_WITH_WORD = new RegExp(`${WORD}$`, "u");
const STARTS_WITH_WORD = new RegExp(`^${WORD}`, "u");

export class AddedTokens {
  readonly tokens: readonly AddedToken[];
  readonly #raw: PieceTrie;
  readonly #normalized: PieceTrie | undefined;
  readonly #normalize: Normalizer;

  /** `normalize` is for text between tokens, and for tokens that are `normalized`. */
  constructor(tokens: readonly AddedToken[], normalize: Normalizer) {
    this.tokens = tokens;
    this.#normalize = normalize;
    const raw: [string, number][] = [];
    const normalized: [string, number][] = [];
    tokens.forEach((token, i) => {
      const content = token.normalized ? normalize(token.content) : token.content;
      if (content !== "") (token.normalized ? normalized : raw).push([content, i]);
    });
    this.#raw = new PieceTrie(raw);
    this.#normalized = normalized.length === 0 ? undefined : new PieceTrie(normalized);
  }

  split(text: string): Segment[] {
    const segments: Segment[] = [];
    for (const segment of this.#cut(text, this.#raw, true)) {
      if ("id" in segment) {
        segments.push(segment);
        continue;
      }
      const normalized = this.#normalize(segment.text);
      if (this.#normalized === undefined) {
        if (normalized !== "") segments.push({ text: normalized, first: segment.first });
      } else {
        for (const part of this.#cut(normalized, this.#normalized, segment.first)) {
          segments.push(part);
        }
      }
    }
    return segments;
  }

  #cut(text: string, trie: PieceTrie, first: boolean): Segment[] {
    const segments: Segment[] = [];
    let done = 0;
    let at = 0;
    while (at < text.length) {
      const match = trie.longestAt(text, at);
      if (match === undefined) {
        at++;
        continue;
      }
      const token = this.tokens[match.value]!;
      let [start, end] = [at, match.end];
      at = end;
      if (token.singleWord && !standsAlone(text, start, end)) continue;
      if (token.lstrip) start = Math.max(done, start - trailingSpace(text.slice(done, start)));
      if (token.rstrip) end += /^\p{White_Space}*/u.exec(text.slice(end))![0].length;
      if (done < start) {
        segments.push({ text: text.slice(done, start), first: first && done === 0 });
      }
      segments.push({ id: token.id });
      done = end;
      at = Math.max(at, end);
    }
    if (done < text.length) segments.push({ text: text.slice(done), first: first && done === 0 });
    return segments;
  }
}

function standsAlone(text: string, start: number, end: number): boolean {
  return !ENDS_WITH_WORD.test(text.slice(Math.max(0, start - 2), start)) &&
    !STARTS_WITH_WORD.test(text.slice(end, end + 2));
}

function trailingSpace(text: string): number {
  let end = text.length;
  while (end > 0 && /\p{White_Space}/u.test(text[end - 1]!)) end--;
  return text.length - end;
}
