/** In which precision a model of the catalogue is taken. */

import type { CatalogueModel } from "./catalogue.ts";

/** What a card is taken to have where there is none to ask. */
export const USUAL_BYTES = 8e9;

/** Bits of a number, by type; most first. */
const BITS: ReadonlyMap<string, number> = new Map([
  ["bf16", 16],
  ["q8_0", 8.5],
  ["q6_k", 6.57],
  ["q5_1", 6],
  ["q5_k", 5.5],
  ["q5_0", 5.5],
  ["q4_1", 5],
  ["q4_k", 4.5],
  ["q4_0", 4.5],
  ["iq4_nl", 4.5],
  ["iq4_xs", 4.25],
  ["q3_k", 3.44],
  ["q2_k", 2.63],
]);

/** What no precision of fewer bits is taken for by itself: images suffer. */
const LEAST_BITS = 4;

/** Memory beside the transformer: activations of a usual request. */
const RESERVE: Readonly<Record<CatalogueModel["makes"], number>> = { images: 2e9, videos: 4e9 };

/** Precisions by which a model is published, most bits first: `bf16` and types of ggml. */
export function precisionsOf({ quantised }: CatalogueModel): readonly string[] {
  return ["bf16", ...quantised?.types ?? []];
}

export function transformerBytes({ parameters }: CatalogueModel, precision: string): number {
  return parameters * (BITS.get(precision) ?? 16) / 8;
}

/** Bytes of an autoencoder, a tokenizer and what else is small. */
const SMALL_BYTES = 0.3e9;

/** About how much is fetched of a model; the hub tells it exactly when that begins, as repositories may hold f32. */
export function downloadBytes(model: CatalogueModel, precision: string): number {
  const { textEncoderBytes, unreadBytes = 0, quantised } = model;
  const transformers = transformerBytes(model, precision) * (quantised?.experts?.length ?? 1);
  return Math.round(transformers + textEncoderBytes + unreadBytes + SMALL_BYTES);
}

/** Whether the transformer stays on a GPU with so much memory while it works. */
export function fits(model: CatalogueModel, precision: string, availableBytes: number): boolean {
  return transformerBytes(model, precision) + RESERVE[model.makes] <= availableBytes;
}

/** Memory that is worth asking for: what all of the model takes in bf16. */
export function mostBytes(model: CatalogueModel): number {
  return Math.max(transformerBytes(model, "bf16"), model.textEncoderBytes) + RESERVE[model.makes];
}

/** The precision of most bits that fits, or the smallest of at least four bits, whose weights are streamed then. */
export function choosePrecision(model: CatalogueModel, availableBytes: number): string {
  const usual = precisionsOf(model).filter((name) => (BITS.get(name) ?? 0) >= LEAST_BITS);
  return usual.find((name) => fits(model, name, availableBytes)) ?? usual.at(-1)!;
}

interface SuitingModel {
  readonly model: CatalogueModel;
  readonly precision: string;
}

/** The first models whose transformers stay on a GPU with so much memory, in at least four bits. */
export function suitingModels(
  catalogue: readonly CatalogueModel[],
  availableBytes: number,
  count: number,
): SuitingModel[] {
  return catalogue.map((model) => ({ model, precision: choosePrecision(model, availableBytes) }))
    .filter(({ model, precision }) => fits(model, precision, availableBytes))
    .slice(0, count);
}

/** The type that a file of quantised weights is named for, such as `q4_k` of `model-Q4_K_M.gguf`; nothing of others. */
export function typeOfFile(path: string): string | undefined {
  const [, type] = /[-_.](I?Q\d_(?:K|NL|XS|\d))(?:_[SML])?\.gguf$/i.exec(path) ?? [];
  return type?.toLowerCase();
}

/** The file of a type, or where the repository has none of it, of the next one with fewer bits. */
export function chooseQuantised(
  paths: readonly string[],
  type: string,
  part = "",
): string | undefined {
  const bits = BITS.get(type) ?? 0;
  const choices = paths.filter((path) => path.includes(part)).flatMap((path) => {
    const own = typeOfFile(path);
    const ownBits = BITS.get(own ?? "");
    return ownBits !== undefined && ownBits <= bits
      ? [{ path, distance: own === type ? 0 : 1 + bits - ownBits }]
      : [];
  });
  // Of one type, the plain one, then those of the usual mixes.
  const rank = (path: string) =>
    (/_M\.gguf$/i.test(path) ? 1 : /_[SL]\.gguf$/i.test(path) ? 2 : 0) +
    (/UD-/.test(path) ? 4 : 0);
  choices.sort((a, b) => a.distance - b.distance || rank(a.path) - rank(b.path));
  return choices[0]?.path;
}
