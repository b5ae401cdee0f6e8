/** Prompts of any length as texts of CLIP's length: each has a begin and an end token, and their states are joined. */
import type { Tokenizer } from "../tokenizers/mod.ts";
import { parsePrompt, type PromptSyntax } from "./parse_prompt.ts";

/** A text as the encoder reads it: ids of all its places, and what each weighs. */
export interface PromptChunk {
  readonly ids: readonly number[];
  readonly weights: readonly number[];
}

/** Tokens that belong together, such as the vectors of a learnt word; most are one alone. */
interface Unit {
  readonly ids: readonly number[];
  readonly weight: number;
}

/** What becomes of words that stand for learnt vectors: pieces of text, and ids of vectors. */
export type SplitWords = (text: string, syntax: PromptSyntax) => (string | readonly number[])[];

export interface ChunkOptions {
  readonly syntax: PromptSyntax;
  readonly tokenizer: Tokenizer;
  /** Places of a text, the begin and end tokens among them: 77. */
  readonly places: number;
  /** Texts that a prompt may become. */
  readonly maxChunks: number;
  /** Tokens that it may have in all of them; as many as they hold by default. */
  readonly maxTokens?: number | undefined;
  readonly splitWords?: SplitWords | undefined;
}

export interface ChunkedPrompt {
  /** At least one. */
  readonly chunks: readonly PromptChunk[];
  /** Tokens that were read, without begin, end and padding. */
  readonly read: number;
  /** Ids beyond the last text, or beyond the number of tokens. */
  readonly rest: readonly number[];
}

/** How far before the end of a text AUTOMATIC1111 looks for a comma, after which the rest moves on. */
const COMMA_REACH = 20;
/** ComfyUI keeps pieces with fewer tokens whole. */
const LONG_PIECE = 8;

/** Cuts a prompt into texts as the program does whose syntax it has; a plain one wherever a text is full. */
export function chunkPrompt(prompt: string, options: ChunkOptions): ChunkedPrompt {
  const { syntax, tokenizer, places, maxChunks, maxTokens = Infinity } = options;
  const builder = new ChunkBuilder(tokenizer, places);
  for (const piece of parsePrompt(prompt, syntax)) {
    if (piece === "break") builder.next();
    else {
      const parts = options.splitWords?.(piece.text, syntax) ?? [piece.text];
      for (const part of parts) {
        const units = unitsOf(part, piece.weight, tokenizer);
        if (syntax === "comfyui") builder.addWhole(units.flatMap(single));
        else if (syntax === "a1111") units.forEach((unit) => builder.addByCommas(unit));
        else units.forEach((unit) => builder.add(unit));
      }
    }
  }
  const texts = builder.finish();
  const kept = firstTokens(texts.slice(0, maxChunks), maxTokens);
  const read = kept.reduce((sum, units) => sum + lengthOf(units), 0);
  return {
    chunks: kept.map((units) => toChunk(units, tokenizer, places)),
    read,
    rest: texts.flatMap((units) => units.flatMap(({ ids }) => ids)).slice(read),
  };
}

/** The texts up to a number of tokens; what belongs together is not parted. */
function firstTokens(texts: readonly (readonly Unit[])[], most: number): (readonly Unit[])[] {
  const kept: (readonly Unit[])[] = [];
  let room = most;
  for (const units of texts) {
    const own = units.filter((unit) => (room -= unit.ids.length) >= 0);
    if (own.length > 0 || kept.length === 0 || units.length === 0) kept.push(own);
    if (room <= 0) break;
  }
  return kept;
}

/** Gives all prompts the same number of texts; those that are added are empty. */
export function alignChunks(
  prompts: readonly (readonly PromptChunk[])[],
  count: number,
  { tokenizer, places }: Pick<ChunkOptions, "tokenizer" | "places">,
): PromptChunk[][] {
  const empty = toChunk([], tokenizer, places);
  return prompts.map((chunks) => [
    ...chunks,
    ...new Array<PromptChunk>(count - chunks.length).fill(empty),
  ]);
}

function unitsOf(
  part: string | readonly number[],
  weight: number,
  tokenizer: Tokenizer,
): Unit[] {
  if (typeof part !== "string") return [{ ids: part, weight }];
  return tokenizer.encode(part, { addSpecialTokens: false }).map((id) => ({ ids: [id], weight }));
}

function single({ ids, weight }: Unit): Unit[] {
  return ids.map((id) => ({ ids: [id], weight }));
}

function lengthOf(units: readonly Unit[]): number {
  return units.reduce((sum, { ids }) => sum + ids.length, 0);
}

function toChunk(units: readonly Unit[], tokenizer: Tokenizer, places: number): PromptChunk {
  const [begin, end] = tokenizer.encode("") as [number, number];
  const ids = [begin, ...units.flatMap(({ ids }) => ids), end];
  const weights = [1, ...units.flatMap(({ ids, weight }) => ids.map(() => weight)), 1];
  const missing = places - ids.length;
  return {
    ids: [...ids, ...new Array<number>(missing).fill(tokenizer.padId)],
    weights: [...weights, ...new Array<number>(missing).fill(1)],
  };
}

class ChunkBuilder {
  readonly #texts: Unit[][] = [];
  readonly #room: number;
  readonly #comma: number | undefined;
  #units: Unit[] = [];
  #length = 0;

  constructor(tokenizer: Tokenizer, places: number) {
    this.#room = places - tokenizer.encode("").length;
    this.#comma = tokenizer.encode(",", { addSpecialTokens: false })[0];
  }

  /** Begins another text. */
  next(): void {
    this.#texts.push(this.#units);
    this.#units = [];
    this.#length = 0;
  }

  add(unit: Unit): void {
    if (unit.ids.length > this.#room) {
      throw new RangeError(
        `Cannot read the prompt: a learnt word has ${unit.ids.length} vectors, a text has ${this.#room} places`,
      );
    }
    if (this.#length + unit.ids.length > this.#room) this.next();
    this.#units.push(unit);
    this.#length += unit.ids.length;
  }

  /** As {@linkcode add}; a full text ends after its last comma if that is near. */
  addByCommas(unit: Unit): void {
    const isComma = ({ ids }: Unit) => ids.length === 1 && ids[0] === this.#comma;
    if (this.#length === this.#room && !isComma(unit)) {
      const last = this.#units.findLastIndex(isComma);
      const moved = this.#units.slice(last + 1);
      if (last !== -1 && lengthOf(moved) + 1 <= COMMA_REACH) {
        this.#units.length = last + 1;
        this.next();
        this.#units = moved;
        this.#length = lengthOf(moved);
      }
    }
    this.add(unit);
  }

  /** Units of one id each: if they are few, all in one text. */
  addWhole(units: readonly Unit[]): void {
    if (units.length < LONG_PIECE && this.#length + units.length > this.#room) this.next();
    units.forEach((unit) => this.add(unit));
  }

  finish(): Unit[][] {
    if (this.#units.length > 0 || this.#texts.length === 0) this.next();
    return this.#texts;
  }
}
