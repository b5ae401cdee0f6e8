/** Embeddings that come with a LoRA, `bundle_emb` in its file, as AUTOMATIC1111's web UI reads them. */
import type { TensorEntry } from "../../runtime/mod.ts";
import { isNoVector, isVectors, MAX_VECTORS } from "../textual_inversion/read_embedding.ts";
import type { BroughtWord } from "../textual_inversion/prompt_words.ts";
import { isReadable, type LoraFile } from "./file/lora_file.ts";
import { LoraError } from "./lora_error.ts";
import type { AppliedLora, LoraWord } from "./types.ts";

/** The name of the word comes first, then that of the tensor, which may have dots. */
const WORD = /^bundle_emb\.([^.]+)\../;

/** The word that a tensor is of. */
export function wordOf(key: string): string | undefined {
  return WORD.exec(key)?.[1];
}

export async function readWords(file: LoraFile): Promise<LoraWord[]> {
  const all = [...file.tensors.values()].filter(({ name }) => wordOf(name) !== undefined);
  const entries = all.filter((entry) => !isNoVector(entry));
  const strange = entries.find((entry) => !isReadable(entry) || !isVectors(entry));
  if (strange) {
    const { name, shape, format } = strange;
    throw new LoraError(
      `Cannot use the LoRA "${file.path}": "${name}" of shape [${shape}] and type ${format} is no embedding, which has ` +
        `1 to ${MAX_VECTORS} vectors of a text encoder`,
    );
  }
  const words = Map.groupBy(entries, ({ name }: TensorEntry) => wordOf(name)!);
  const empty = all.map(({ name }) => wordOf(name)!).find((word) => !words.has(word));
  if (empty !== undefined) {
    throw new LoraError(
      `Cannot use the LoRA "${file.path}": its word "${empty}" has no vectors; fetch the file again, or take another`,
    );
  }
  const tensors = await file.read(entries);
  return [...words].map(([name, own]) => ({
    name,
    vectors: own.map((entry) => tensors.get(entry.name)!),
  }));
}

/** Words of LoRAs by their names in small letters; of equal names the first counts. */
export function wordsInUse(loras: readonly AppliedLora[] = []): ReadonlyMap<string, BroughtWord> {
  const words = new Map<string, BroughtWord>();
  for (const { key, lora } of loras) {
    for (const { name, vectors } of lora.words ?? []) {
      words.getOrInsert(name.toLowerCase(), { key: JSON.stringify([key, name]), vectors });
    }
  }
  return words;
}
