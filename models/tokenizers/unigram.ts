/**
 * The most probable segmentation of a text. SentencePiece keeps path scores in float32, `tokenizers` in float64, which
 * decides between equal ones. Source: Kudo 2018, "Subword Regularization".
 */

import { byteOfPiece, bytesOfPiece, utf8 } from "./byte_pieces.ts";
import { PieceTrie } from "./piece_trie.ts";

/** How far below the rarest piece an unknown character scores, in natural log units. */
const UNKNOWN_PENALTY = 10;

export interface UnigramOptions {
  readonly pieces: readonly string[];
  readonly scores: ArrayLike<number>;
  readonly unkId: number;
  readonly byteFallback: boolean;
  readonly searchable?: (id: number) => boolean;
  readonly userDefined?: ReadonlySet<number>;
  readonly precision: "float32" | "float64";
}

export class Unigram {
  readonly #trie: PieceTrie;
  readonly #scores: Float64Array;
  readonly #userDefined: ReadonlySet<number>;
  readonly #bonus: number;
  readonly #unkScore: number;
  readonly #unkId: number;
  readonly #bytes: Int32Array | undefined;
  readonly #float32: boolean;

  constructor(options: UnigramOptions) {
    const { pieces, scores, unkId, byteFallback, searchable = () => true } = options;
    if (!Number.isSafeInteger(unkId) || unkId < 0 || unkId >= pieces.length) {
      throw new RangeError(
        `Cannot make a Unigram model: the unknown piece is ${unkId} of ${pieces.length} pieces`,
      );
    }
    this.#float32 = options.precision === "float32";
    this.#unkId = unkId;
    this.#userDefined = options.userDefined ?? new Set();
    this.#scores = Float64Array.from(scores);
    let lowest = Infinity;
    let highest = this.#float32 ? 2 ** -126 : 0;
    const entries: [string, number][] = [];
    for (let id = 0; id < pieces.length; id++) {
      if (!searchable(id)) continue;
      entries.push([pieces[id]!, id]);
      if (this.#userDefined.has(id)) continue;
      lowest = Math.min(lowest, this.#scores[id]!);
      highest = Math.max(highest, this.#scores[id]!);
    }
    this.#bonus = highest;
    this.#unkScore = this.#round(lowest - UNKNOWN_PENALTY);
    this.#trie = new PieceTrie(entries);
    this.#bytes = byteFallback ? byteIds(pieces) : undefined;
  }

  /** The ids of a normalized text. A run of unknown characters becomes one unknown id, or with byte fallback an id per byte. */
  encode(text: string): number[] {
    const { starts, ids } = this.#bestPaths(text);
    const reversed: number[] = [];
    let end = text.length;
    while (end > 0) {
      let start = starts[end]!;
      if (ids[end] !== this.#unkId) {
        reversed.push(ids[end]!);
      } else {
        while (start > 0 && ids[start] === this.#unkId) start = starts[start]!;
        for (const id of this.#unknown(text.slice(start, end)).reverse()) reversed.push(id);
      }
      end = start;
    }
    return reversed.reverse();
  }

  bytesOf(piece: string): Iterable<number> {
    return bytesOfPiece(piece, this.#bytes !== undefined);
  }

  /** The start and the id of the last piece of the best path, for every end of a character. */
  #bestPaths(text: string): { starts: Int32Array; ids: Int32Array } {
    const trie = this.#trie;
    const best = new Float64Array(text.length + 1);
    const starts = new Int32Array(text.length + 1).fill(-1);
    const ids = new Int32Array(text.length + 1);
    const offer = (start: number, end: number, id: number, score: number): void => {
      // SentencePiece compares in float64 what it keeps in float32.
      const candidate = score + best[start]!;
      if (starts[end] !== -1 && !(candidate > best[end]!)) return;
      best[end] = this.#round(candidate);
      starts[end] = start;
      ids[end] = id;
    };
    let start = 0;
    while (start < text.length) {
      const next = start + (text.codePointAt(start)! > 0xffff ? 2 : 1);
      let single = false;
      let node = trie.root;
      for (let i = start; i < text.length; i++) {
        node = trie.child(node, text.charCodeAt(i));
        if (node === -1) break;
        const id = trie.value(node);
        if (id === -1) continue;
        offer(start, i + 1, id, this.#pieceScore(id, text, start, i + 1));
        if (i + 1 === next) single = true;
      }
      if (!single) offer(start, next, this.#unkId, this.#unkScore);
      start = next;
    }
    return { starts, ids };
  }

  #pieceScore(id: number, text: string, start: number, end: number): number {
    if (!this.#userDefined.has(id)) return this.#scores[id]!;
    return utf8(text.slice(start, end)).length * this.#bonus - 0.1;
  }

  #unknown(run: string): number[] {
    // Hugging Face looks a fused run up once more, so a piece too improbable to win may still match.
    const known = this.#float32 ? -1 : this.#trie.get(run);
    if (known !== -1) return [known];
    const table = this.#bytes;
    if (table === undefined) return [this.#unkId];
    const ids = Array.from(utf8(run), (byte) => table[byte]!);
    return ids.includes(-1) ? [this.#unkId] : ids;
  }

  #round(score: number): number {
    return this.#float32 ? Math.fround(score) : score;
  }
}

function byteIds(pieces: readonly string[]): Int32Array {
  const table = new Int32Array(256).fill(-1);
  for (let id = 0; id < pieces.length; id++) {
    const byte = byteOfPiece(pieces[id]!);
    if (byte !== undefined) table[byte] = id;
  }
  return table;
}
