/** A folder of textual inversions, and what of them a text encoder has read. */
import {
  describeFileError,
  extname,
  fileInfoSync,
  join,
  listFolderSync,
} from "../../platform/mod.ts";
import { isWeightFile } from "../../hub/parts.ts";
import { decodeElements } from "../../runtime/mod.ts";
import type { BroughtWord, KnownWords } from "./prompt_words.ts";
import { EmbeddingFile, embeddingName, type LearntVectors } from "./read_embedding.ts";

/** An embedding by what prompts call it. */
export interface KnownEmbedding {
  readonly name: string;
  readonly vectors: readonly LearntVectors[];
}

interface Learnt {
  readonly stamp: number;
  readonly ids: readonly number[];
}

const MAX_LISTED = 8;

export class EmbeddingFolder {
  readonly #path: string | undefined;
  readonly #towers = new Map<number, TowerEmbeddings>();

  /** Without a path there are none. */
  constructor(path: string | undefined) {
    this.#path = path;
    if (path !== undefined) checkFolder(path);
  }

  /** Paths by names, as the folder is now. */
  files(): Map<string, string> {
    const folder = this.#path;
    if (folder === undefined) return new Map();
    const names = namesIn(folder).filter((name) => isWeightFile(name) && !/\.gguf$/i.test(name))
      .sort();
    return new Map(names.map((name) => [embeddingName(name), join(folder, name)]));
  }

  /** Those that can be read; others are no embeddings. */
  known(): KnownEmbedding[] {
    return [...this.files()].flatMap(([name, path]) => {
      try {
        using file = EmbeddingFile.open(path);
        return [{ name, vectors: file.vectors }];
      } catch {
        return [];
      }
    });
  }

  /** Path of the file that a prompt names, with or without its ending; capital letters count only where names differ by them. */
  find(name: string): string | undefined {
    const files = this.files();
    const short = /^\.(?:pt|bin|ckpt|pth|safetensors)$/i.test(extname(name))
      ? embeddingName(name)
      : name;
    const exact = files.get(name) ?? files.get(short);
    if (exact !== undefined) return exact;
    const lower = short.toLowerCase();
    return [...files].find(([known]) => known.toLowerCase() === lower)?.[1];
  }

  /** What a text encoder reads of them; one object for each size of its table. */
  tower({ vocab_size, hidden_size }: TableSize): TowerEmbeddings {
    const known = this.#towers.get(hidden_size);
    if (known) return known;
    const tower = new TowerEmbeddings(this, vocab_size, hidden_size);
    this.#towers.set(hidden_size, tower);
    return tower;
  }

  /** @throws {RangeError} that tells what there is, beside the words of LoRAs */
  refuse(name: string, words: readonly string[] = []): never {
    const bring = words.length > 0 ? `; the LoRAs have ${listed(words)}` : "";
    throw new RangeError(
      `Cannot read the prompt: it names the embedding "${name.slice(0, 100)}", and ${
        this.#path === undefined
          ? "the model has no folder of embeddings; name one with --embeddings"
          : `the folder has ${listed([...this.files().keys()])}`
      }${bring}`,
    );
  }
}

function listed(names: readonly string[]): string {
  const others = names.slice(0, MAX_LISTED).join(", ") + (names.length > MAX_LISTED ? ", …" : "");
  return others || "none";
}

/** None when the folder is gone: most prompts need no embedding. */
function namesIn(folder: string): string[] {
  try {
    return listFolderSync(folder);
  } catch {
    return [];
  }
}

function checkFolder(path: string): void {
  let problem: string | undefined;
  try {
    if (!fileInfoSync(path).isDirectory) problem = "it is a file; name the folder that has it";
  } catch (error) {
    problem = describeFileError(error);
  }
  if (problem) throw new TypeError(`Cannot take embeddings from "${path}": ${problem}`);
}

interface TableSize {
  readonly vocab_size: number;
  readonly hidden_size: number;
}

/** Rows behind the table of a text encoder: ids from the size of its vocabulary on. */
export class TowerEmbeddings implements KnownWords {
  readonly #folder: EmbeddingFolder;
  readonly #firstId: number;
  readonly #width: number;
  readonly #rows: Float32Array[] = [];
  readonly #learnt = new Map<string, Learnt>();
  /** Files that hold no embedding, and when they were written. */
  readonly #others = new Map<string, number>();

  /** Use {@linkcode EmbeddingFolder.tower}. */
  constructor(folder: EmbeddingFolder, vocabSize: number, width: number) {
    this.#folder = folder;
    this.#firstId = vocabSize;
    this.#width = width;
  }

  /** Names that a prompt may have as words. */
  get names(): string[] {
    return [...this.#folder.files().keys()];
  }

  /** Whether a name is that of an embedding; the folder may hold other files, which are named as usual words. */
  has(name: string): boolean {
    const path = this.#folder.find(name);
    if (path === undefined) return false;
    const stamp = stampOf(path);
    if (this.#learnt.get(path)?.stamp === stamp) return true;
    if (this.#others.get(path) === stamp) return false;
    try {
      EmbeddingFile.open(path)[Symbol.dispose]();
      return true;
    } catch {
      this.#others.set(path, stamp);
      return false;
    }
  }

  /** Ids of the vectors that a name stands for; a file that has changed since gets others. */
  idsOf(name: string): readonly number[] {
    const path = this.#folder.find(name) ?? this.#folder.refuse(name);
    return this.#learn(path, stampOf(path), () => this.#read(name, path));
  }

  /** These, and words that others bring, which give way to files of the same name. */
  beside(words: ReadonlyMap<string, BroughtWord>): KnownWords {
    if (words.size === 0) return this;
    return {
      names: [...this.names, ...words.keys()],
      has: (name) => words.has(name.toLowerCase()) || this.has(name),
      idsOf: (name) => {
        if (this.has(name)) return this.idsOf(name);
        const word = words.get(name.toLowerCase());
        if (word) return this.#learn(word.key, 0, () => this.#vectorsOf(name, word));
        return this.#folder.find(name) === undefined
          ? this.#folder.refuse(name, [...words.keys()])
          : this.idsOf(name);
      },
    };
  }

  #learn(key: string, stamp: number, read: () => Float32Array): readonly number[] {
    const known = this.#learnt.get(key);
    if (known?.stamp === stamp) return known.ids;
    const vectors = read();
    const ids: number[] = [];
    for (let start = 0; start < vectors.length; start += this.#width) {
      ids.push(this.#firstId + this.#rows.length);
      this.#rows.push(vectors.subarray(start, start + this.#width));
    }
    this.#learnt.set(key, { stamp, ids });
    return ids;
  }

  #vectorsOf(name: string, { vectors }: BroughtWord): Float32Array {
    const own = vectors.filter(({ shape }) => shape.at(-1) === this.#width);
    if (own.length === 0) throw this.#misfit(name, vectors.map(({ shape }) => shape.at(-1)!));
    // Decoders take no shared memory.
    return Float32Array.from(
      own.flatMap(({ bytes, dtype }) => [...decodeElements(new Uint8Array(bytes), dtype)]),
    );
  }

  #misfit(name: string, widths: readonly number[]): RangeError {
    return new RangeError(
      `Cannot use the embedding "${name}": its vectors have ${
        widths.join(" and ")
      } numbers, those of the text encoder ${this.#width}; it is for another model`,
    );
  }

  #read(name: string, path: string): Float32Array {
    try {
      using file = EmbeddingFile.open(path);
      const vectors = file.read(this.#width);
      if (vectors) return vectors;
      throw this.#misfit(name, file.vectors.map(({ width }) => width));
    } catch (cause) {
      if (!(cause instanceof SyntaxError)) throw cause;
      // Where the folder is concerns no client.
      throw new RangeError(cause.message.replaceAll(path, name), { cause });
    }
  }

  /** The vector of an id behind the vocabulary. */
  row(id: number): Float32Array {
    const row = this.#rows[id - this.#firstId];
    if (row) return row;
    throw new RangeError(`Cannot embed token ${id}: no embedding has this id`);
  }
}

function stampOf(path: string): number {
  return fileInfoSync(path).mtime?.getTime() ?? 0;
}
