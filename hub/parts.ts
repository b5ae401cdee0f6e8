/** Files that are parts of one, as llama.cpp and Hugging Face number them: `model-00001-of-00003.safetensors`. */

/** Endings of weight files that are fetched and chosen without being named. */
export const WEIGHTS = /\.(?:safetensors|gguf)$/i;

/** Endings of files that PyTorch saved, which are read where a user names them. */
export const PICKLES = /\.(?:ckpt|pth?|bin|pkl)$/i;

const PART_NAME = /^(.{0,500})-(\d{2,5})-of-(\d{2,5})(\.safetensors|\.gguf|\.bin)$/i;

/** Whether a file is one of weights by its name. */
export function isWeightFile(path: string): boolean {
  return WEIGHTS.test(path) || PICKLES.test(path);
}

export interface Part {
  /** From 1 on; some writers begin with 0. */
  readonly number: number;
  /** Paths of all parts, in order. */
  readonly all: readonly string[];
  /** A pattern of all parts, with `*` for their numbers. */
  readonly pattern: string;
}

export function partOf(path: string): Part | undefined {
  const [, stem, number = "", count = "", ending] = PART_NAME.exec(path) ?? [];
  if (stem === undefined || !(Number(count) > 1)) return undefined;
  const first = Number(number) === 0 ? 0 : 1;
  const nameOf = (part: string) => `${stem}-${part}-of-${count}${ending}`;
  return {
    number: Number(number),
    all: Array.from(
      { length: Number(count) },
      (_, i) => nameOf(String(i + first).padStart(number.length, "0")),
    ),
    pattern: nameOf("*"),
  };
}

/** Whether a file can be a LoRA by its name. GGUF files hold none. */
export function isLoraName(path: string): boolean {
  return isWeightFile(path) && !/\.gguf$/i.test(path);
}
