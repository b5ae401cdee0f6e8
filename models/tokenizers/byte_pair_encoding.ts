/**
 * Byte-pair encoding: neighbours are joined by a list of merges, the earliest first; ids are those of `tokenizers`.
 * Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units".
 */

import { excerpt } from "../../hub/json_file.ts";
import { bytesOfCharacters } from "./byte_level.ts";
import type { JsonReader } from "./json_fields.ts";
import { bytesOfPiece, pieceOfByte, utf8 } from "./byte_pieces.ts";

/** Ids are below this: two of them make one exact number. */
const MAX_IDS = 2 ** 22;
/** Places in a piece are below this: with the number of a merge they make one exact number. */
const MAX_PLACES = 2 ** 26;
const NONE = -1;

interface BytePairOptions {
  readonly ids: ReadonlyMap<string, number>;
  /** Pairs of pieces that may be joined, the first to be joined first; both and what they give are in `ids`. */
  readonly merges: readonly (readonly [left: string, right: string])[];
  /** Numbers of the merges, the lowest first, where several that give the same piece are one; their places by default. */
  readonly ranks?: readonly number[];
  readonly keepsWholePieces: boolean;
  /** What the last character of a piece of text ends with in the vocabulary, such as `</w>`; nothing by default. */
  readonly suffix?: string;
  /** Whether a character that the vocabulary lacks becomes an id for each of its bytes, such as `<0x0A>`, as in SentencePiece. */
  readonly byteFallback?: boolean;
  /** The id of what else is unknown, and whether several in a row become one; they are omitted by default. */
  readonly unknown?: { readonly id: number; readonly isFused: boolean } | undefined;
}

export class BytePairEncoding {
  readonly #ids: ReadonlyMap<string, number>;
  readonly #keepsWholePieces: boolean;
  readonly #suffix: string;
  readonly #ranks = new Map<number, number>();
  readonly #merged: Int32Array;
  readonly #byteFallback: boolean;
  readonly #unknown: BytePairOptions["unknown"];

  constructor({ ids, merges, keepsWholePieces, ...options }: BytePairOptions) {
    const { suffix = "", byteFallback = false, unknown, ranks } = options;
    this.#byteFallback = byteFallback;
    this.#unknown = unknown;
    this.#ids = ids;
    this.#suffix = suffix;
    this.#keepsWholePieces = keepsWholePieces;
    this.#merged = new Int32Array(merges.length);
    merges.forEach(([left, right], i) => {
      const rank = ranks?.[i] ?? i;
      const idOf = (piece: string): number => {
        const id = ids.get(piece);
        if (id !== undefined) return id;
        throw new RangeError(
          `Cannot use merge ${rank} of ${excerpt(left)} and ${excerpt(right)}: ${
            excerpt(piece)
          } is not in the vocabulary`,
        );
      };
      // Of two equal merges the later counts.
      this.#ranks.set(pairKey(idOf(left), idOf(right)), rank);
      this.#merged[rank] = idOf(left + right);
    });
  }

  /** The ids of a piece. */
  encode(text: string): number[] {
    if (text === "") return [];
    const whole = this.#keepsWholePieces ? this.#ids.get(text) : undefined;
    if (whole !== undefined) return [whole];
    const ids: number[] = [];
    const characters = [...text];
    characters.push(characters.pop()! + this.#suffix);
    let isUnknown = false;
    for (const character of characters) {
      const id = this.#ids.get(character);
      const known = id === undefined ? this.#bytesIn(character) : [id];
      const repeats = isUnknown && this.#unknown?.isFused;
      isUnknown = known === undefined;
      if (known) ids.push(...known);
      else if (this.#unknown && !repeats) ids.push(this.#unknown.id);
    }
    this.#join(ids);
    return ids.filter((id) => id !== NONE);
  }

  /** An id for each byte of a character, where the vocabulary has all of them. */
  #bytesIn(character: string): number[] | undefined {
    if (!this.#byteFallback) return undefined;
    const ids = [...utf8(character)].map((byte) => this.#ids.get(pieceOfByte(byte)));
    return ids.every((id) => id !== undefined) ? ids as number[] : undefined;
  }

  bytesOf(piece: string): Iterable<number> {
    if (this.#byteFallback) return bytesOfPiece(piece, true);
    const isEnd = this.#suffix !== "" && piece.endsWith(this.#suffix);
    return bytesOfCharacters(isEnd ? `${piece.slice(0, -this.#suffix.length)} ` : piece);
  }

  /** Joins in place: the left of two takes what they give, the right becomes {@linkcode NONE}. */
  #join(ids: number[]): void {
    const next = ids.map((_, place) => place + 1);
    const previous = ids.map((_, place) => place - 1);
    const candidates = new Candidates();
    const rankAt = (place: number): number | undefined => {
      const right = next[place]!;
      return right < ids.length ? this.#ranks.get(pairKey(ids[place]!, ids[right]!)) : undefined;
    };
    const offer = (place: number): void => {
      const rank = rankAt(place);
      if (rank !== undefined) candidates.push(rank, place);
    };
    for (let place = 0; place < ids.length; place++) offer(place);
    for (let first = candidates.pop(); first !== undefined; first = candidates.pop()) {
      const { rank, place } = first;
      // One of the two may have been joined to something else since.
      if (ids[place] === NONE || rankAt(place) !== rank) continue;
      const right = next[place]!;
      ids[place] = this.#merged[rank]!;
      ids[right] = NONE;
      next[place] = next[right]!;
      if (next[place]! < ids.length) previous[next[place]!] = place;
      offer(place);
      if (previous[place]! >= 0) offer(previous[place]!);
    }
  }
}

function pairKey(left: number, right: number): number {
  return left * MAX_IDS + right;
}

/** Merges that could be done, of which the one with the lowest number comes out first, the leftmost of equal ones. */
class Candidates {
  /** A binary heap of rank and place in one number. */
  readonly #heap: number[] = [];

  push(rank: number, place: number): void {
    const heap = this.#heap;
    const key = rank * MAX_PLACES + place;
    let at = heap.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (heap[parent]! <= key) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = key;
  }

  pop(): { rank: number; place: number } | undefined {
    const heap = this.#heap;
    const first = heap[0];
    if (first === undefined) return undefined;
    const last = heap.pop()!;
    if (heap.length > 0) {
      let at = 0;
      for (let child = 1; child < heap.length; child = 2 * at + 1) {
        if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child++;
        if (heap[child]! >= last) break;
        heap[at] = heap[child]!;
        at = child;
      }
      heap[at] = last;
    }
    return { rank: Math.floor(first / MAX_PLACES), place: first % MAX_PLACES };
  }
}

export function readBytePairEncoding(
  json: JsonReader,
): { model: BytePairEncoding; pieces: readonly string[] } {
  for (const key of ["dropout", "continuing_subword_prefix"]) {
    const value = json.fields[key] ?? "";
    if (value !== "" && value !== 0) throw json.error(key, "is set, which is not supported");
  }
  const vocabulary = json.object("vocab");
  const ids = new Map<string, number>();
  const pieces: string[] = [];
  for (const piece of Object.keys(vocabulary.fields)) {
    const id = vocabulary.index(piece);
    if (id >= MAX_IDS) throw vocabulary.error(piece, `is ${id}, ids must be below ${MAX_IDS}`);
    ids.set(piece, id);
    pieces[id] = piece;
  }
  const merges = json.array("merges").map((merge, i): [string, string] => {
    const [left, right, ...rest] = typeof merge === "string"
      ? merge.split(" ")
      : Array.isArray(merge)
      ? merge
      : [];
    if (typeof left === "string" && typeof right === "string" && rest.length === 0) {
      return [left, right];
    }
    throw json.error(`merges[${i}]`, "is not a pair of pieces");
  });
  const keepsWholePieces = json.boolean("ignore_merges", false);
  const suffix = json.fields["end_of_word_suffix"] ? json.string("end_of_word_suffix") : "";
  const byteFallback = json.boolean("byte_fallback", false);
  const unknown = readUnknown(json, ids);
  const options = { ids, merges, keepsWholePieces, suffix, byteFallback, unknown };
  try {
    return { model: new BytePairEncoding(options), pieces };
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw json.error("merges", `cannot be used: ${cause.message}`);
  }
}

function readUnknown(
  json: JsonReader,
  ids: ReadonlyMap<string, number>,
): BytePairOptions["unknown"] {
  if ((json.fields["unk_token"] ?? null) === null) return undefined;
  const id = ids.get(json.string("unk_token"));
  // Byte-level vocabularies name a token that no text can need.
  return id === undefined ? undefined : { id, isFused: json.boolean("fuse_unk", false) };
}
