/**
 * Files of textual inversions: vectors that stand for a word in a prompt, of one text encoder or several.
 * Source: Gal et al. 2022, "An Image is Worth One Word"; the files of its code, of AUTOMATIC1111's web UI, of diffusers, and
 * of kohya's trainers for SDXL.
 */
import { basename, extname } from "../../platform/mod.ts";
import { Checkpoint, decodeElements, elementTypeOf, type TensorEntry } from "../../runtime/mod.ts";

/** Vectors for the towers of one width. */
export interface LearntVectors {
  readonly count: number;
  readonly width: number;
}

/** Far more vectors than any prompt has places for. */
export const MAX_VECTORS = 1024;
/** Wider than any text encoder. */
const MAX_WIDTH = 16384;

/** Text encoders by the width of their vectors, and the models that have them. */
export const ENCODER_WIDTHS: ReadonlyMap<number, string> = new Map([
  [768, "CLIP-L (Stable Diffusion 1 and XL)"],
  [1024, "OpenCLIP H (Stable Diffusion 2)"],
  [1280, "OpenCLIP bigG (Stable Diffusion XL)"],
]);

/** The vectors of a file that holds nothing else, for text encoders that are known. */
export function inspectEmbedding(path: string): readonly LearntVectors[] | undefined {
  try {
    using file = EmbeddingFile.open(path);
    return file.vectors.every(({ width }) => ENCODER_WIDTHS.has(width)) ? file.vectors : undefined;
  } catch {
    return undefined;
  }
}

/** What a prompt calls the vectors of a file. */
export function embeddingName(path: string): string {
  return basename(path).slice(0, -extname(path).length || undefined);
}

type Sized = Pick<TensorEntry, "shape">;

/** A tensor of one number tells the steps of the training, or ids of the placeholder. */
export function isNoVector({ shape }: Sized): boolean {
  return shape.every((size) => size <= 1);
}

/** Whether a tensor may be vectors, one or several. */
export function isVectors({ shape }: Sized): boolean {
  const [count, width] = shape.length === 1 ? [1, shape[0]!] : shape as [number, number];
  return shape.length <= 2 && count >= 1 && count <= MAX_VECTORS && width <= MAX_WIDTH;
}

export class EmbeddingFile implements Disposable {
  readonly path: string;
  /** The narrowest first, as SDXL has its text encoders. */
  readonly vectors: readonly LearntVectors[];
  readonly #checkpoint: Checkpoint;
  readonly #names: ReadonlyMap<number, readonly string[]>;

  private constructor(path: string, checkpoint: Checkpoint, names: Map<number, string[]>) {
    this.path = path;
    this.#checkpoint = checkpoint;
    this.#names = names;
    this.vectors = [...names].sort(([a], [b]) => a - b).map(([width, own]) => ({
      width,
      count: own.reduce((sum, name) => sum + rowsOf(checkpoint, name), 0),
    }));
  }

  /** Only names and sizes are read. Throws `SyntaxError` when it holds anything but vectors. */
  static open(path: string): EmbeddingFile {
    const checkpoint = Checkpoint.open(path);
    try {
      const names = new Map<number, string[]>();
      for (const name of checkpoint.names) {
        const entry = checkpoint.find(name)!;
        const { shape, format } = entry;
        const width = shape.at(-1) ?? 0;
        if (isNoVector(entry) || /^string_to_token\./.test(name)) continue;
        if (shape.length > 2 || elementTypeOf(format) === undefined || width > MAX_WIDTH) {
          throw new SyntaxError(
            `Cannot read "${path}" as an embedding: tensor "${name}" of shape [${shape}] and type ${format} is no vectors of a text encoder`,
          );
        }
        names.set(width, [...names.get(width) ?? [], name]);
      }
      const file = new EmbeddingFile(path, checkpoint, names);
      const most = Math.max(0, ...file.vectors.map(({ count }) => count));
      if (most >= 1 && most <= MAX_VECTORS) return file;
      throw new SyntaxError(
        `Cannot read "${path}" as an embedding: it holds ${most} vectors, and an embedding has 1 to ${MAX_VECTORS}`,
      );
    } catch (error) {
      checkpoint[Symbol.dispose]();
      throw error;
    }
  }

  /** The vectors of a width, one after the other; nothing where there are none. */
  read(width: number): Float32Array<ArrayBuffer> | undefined {
    const names = this.#names.get(width);
    if (!names) return undefined;
    const parts = names.flatMap((name) => {
      const { byteLength, format } = this.#checkpoint.find(name)!;
      const bytes = new Uint8Array(byteLength);
      this.#checkpoint.read(name, 0, bytes);
      return Array.from(decodeElements(bytes, elementTypeOf(format)!));
    });
    const broken = parts.findIndex((value) => !Number.isFinite(value));
    if (broken === -1) return Float32Array.from(parts);
    throw new SyntaxError(
      `Cannot use the embedding "${this.path}": vector ${
        Math.floor(broken / width)
      } has NaN or infinity`,
    );
  }

  [Symbol.dispose](): void {
    this.#checkpoint[Symbol.dispose]();
  }
}

function rowsOf(checkpoint: Checkpoint, name: string): number {
  const { shape } = checkpoint.find(name)!;
  return shape.length === 2 ? shape[0]! : 1;
}
