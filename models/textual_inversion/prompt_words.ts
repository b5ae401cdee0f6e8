/** Where a prompt names embeddings: `embedding:name`, and in AUTOMATIC1111's syntax the name alone. */
import type { Shape } from "../../runtime/mod.ts";
import type { SplitWords } from "../prompt_syntax/chunks.ts";

/** A name ends at a space, a comma or a bracket. */
const NAMED = /embedding:([^\s,()[\]:]+)/gi;

/** A word that something else than the folder brings, such as a LoRA. */
export interface BroughtWord {
  /** Equal keys mean the same vectors. */
  readonly key: string;
  /** [width] or [count, width], for the text encoders of their widths. */
  readonly vectors: readonly {
    readonly shape: Shape;
    readonly dtype: "f32" | "f16" | "bf16";
    readonly bytes: Uint8Array;
  }[];
}

/** Embeddings as a text encoder knows them. */
export interface KnownWords {
  /** Names that a prompt may have as words. */
  readonly names: readonly string[];
  /** Whether a name is that of an embedding. */
  has(name: string): boolean;
  /** Ids of the vectors that a name stands for. @throws {RangeError} for a name that is none's */
  idsOf(name: string): readonly number[];
}

/** A piece of text, or ids of vectors. */
type Part = ReturnType<SplitWords>[number];

/** Names that words may be, in small letters; a prompt of thousands of words asks for each name's file once. */
class KnownNames {
  readonly #embeddings: KnownWords;
  readonly #ids = new Map<string, readonly number[]>();
  readonly #isEmbedding = new Map<string, boolean>();
  #names: ReadonlySet<string> | undefined;
  #lengths: readonly number[] = [];

  constructor(embeddings: KnownWords) {
    this.#embeddings = embeddings;
  }

  idsOf(name: string): readonly number[] {
    return this.#ids.getOrInsertComputed(name, () => this.#embeddings.idsOf(name));
  }

  /** The longest name that stands as whole words at a place of a text. */
  at(text: string, place: number): string | undefined {
    if (!this.#names) {
      this.#names = new Set(this.#embeddings.names.map((name) => name.toLowerCase()));
      this.#lengths = [...new Set([...this.#names].map(({ length }) => length))]
        .sort((a, b) => b - a);
    }
    for (const length of this.#lengths) {
      const name = text.slice(place, place + length).toLowerCase();
      if (!this.#names.has(name) || isInWord(text[place + length])) continue;
      if (this.#isEmbedding.getOrInsertComputed(name, () => this.#embeddings.has(name))) {
        return name;
      }
    }
    return undefined;
  }
}

/** Cuts text at the names of embeddings, and gives the ids of their vectors in their place. For the texts of one request. */
export function splitEmbeddings(embeddings: KnownWords): SplitWords {
  const known = new KnownNames(embeddings);
  return (text, syntax) => {
    const parts: Part[] = [];
    let place = 0;
    for (const { 0: whole, 1: name = "", index } of text.matchAll(NAMED)) {
      // A full stop ends the sentence.
      const own = name.replace(/\.$/, "");
      parts.push(text.slice(place, index), known.idsOf(own));
      place = index + whole.length - (name.length - own.length);
    }
    parts.push(text.slice(place));
    const isFull = (part: Part) => part.length > 0;
    if (syntax !== "a1111") return parts.filter(isFull);
    return parts.flatMap((part) => typeof part === "string" ? splitWords(part, known) : [part])
      .filter(isFull);
  };
}

/** Whole words that are names, the longest first. */
function splitWords(text: string, known: KnownNames): Part[] {
  const parts: Part[] = [];
  let start = 0;
  for (let place = 0; place < text.length; place++) {
    if (isInWord(text[place - 1])) continue;
    const name = known.at(text, place);
    if (name === undefined) continue;
    parts.push(text.slice(start, place), known.idsOf(name));
    start = place + name.length;
    place = start - 1;
  }
  return [...parts, text.slice(start)];
}

function isInWord(letter: string | undefined): boolean {
  return letter !== undefined && /[\p{L}\p{N}_]/u.test(letter);
}
