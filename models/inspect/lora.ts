/** What a LoRA file is, whatever model it is for. */
import type { TensorEntry } from "../../runtime/mod.ts";
import { dialectOf, gatherKeys, type ModuleTensors, type Part } from "../lora/file/keys.ts";
import { familyOf } from "../lora/file/family_signs.ts";
import { isReadable, LoraFile } from "../lora/file/lora_file.ts";
import { wordOf } from "../lora/words.ts";

export interface InspectedLora {
  /** How its trainer named modules, and what else than LoRA they hold: `kohya (LoHa)`. */
  readonly dialect: string;
  /** The model that its names and sizes are of, such as `Wan 14B`; nothing where they do not tell. */
  readonly family?: string;
  readonly modules: Readonly<Record<string, number>>;
  /** Ranks, the most usual first. */
  readonly ranks: readonly number[];
  readonly formats: readonly string[];
  /** Whether factors are stored in a format that is not read. */
  readonly hasUnreadFormats: boolean;
  /** Methods in it that this program does not apply; a LoRA with any is refused. */
  readonly refused: readonly string[];
  readonly unknownKeys: readonly string[];
  /** Embeddings that it brings. */
  readonly words: readonly string[];
  /** What the trainer wrote of the base model, a title, or the words that call it. */
  readonly notes: Readonly<Record<string, string>>;
}

const NOTES = [
  "modelspec.title",
  "modelspec.architecture",
  "modelspec.trigger_phrase",
  "ss_base_model_version",
  "ss_output_name",
  "base_model",
];

const MAX_NOTE = 200;

const SIZES: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  Wan: { 1536: "1.3B", 3072: "TI2V 5B", 5120: "14B" },
  "FLUX.2": { 3072: "klein 4B", 4096: "klein 9B", 6144: "dev" },
};

export async function inspectLora(path: string): Promise<InspectedLora> {
  using file = await LoraFile.open(path);
  const { modules, unknown } = gatherKeys(file.tensors, path);
  const changed = modules.filter(({ parts }) => parts.size > 0);
  const family = familyOf(file.tensors);
  const size = SIZES[family ?? ""]?.[widthOf(changed) ?? 0];
  const refused = new Set(modules.flatMap(({ others }) => [...others.values()]));
  return {
    dialect: dialectOf(changed.map((module) => ({ module, naming: "names without a prefix" }))),
    ...(family === undefined ? {} : { family: size ? `${family} ${size}` : family }),
    modules: count(changed.map(({ name }) => targetOf(name))),
    ranks: Object.entries(count(changed.flatMap(({ parts }) => rankOf(parts) ?? [])))
      .sort(([, a], [, b]) => b - a).map(([rank]) => Number(rank)),
    formats: [...new Set([...file.tensors.values()].map(({ format }) => format))],
    hasUnreadFormats: changed.flatMap(({ parts }) => [...parts.values()])
      .some((entry) => entry.shape.length > 1 && !isReadable(entry)),
    refused: [...refused],
    unknownKeys: unknown.filter((key) => wordOf(key) === undefined),
    words: [...new Set(unknown.flatMap((key) => wordOf(key) ?? []))],
    notes: Object.fromEntries(
      NOTES.flatMap((key) => {
        const text = file.metadata[key];
        // deno-lint-ignore no-control-regex
        return text ? [[key, text.replace(/[\x00-\x1f\x7f]+/g, " ").slice(0, MAX_NOTE)]] : [];
      }),
    ),
  };
}

function count(words: readonly (string | number)[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}

function targetOf(name: string): string {
  if (/^(?:base_model\.model\.)?(?:text_encoder|lora_te|text_encoders|conditioner)/.test(name)) {
    return "text encoder";
  }
  return /^(?:base_model\.model\.)?transformer_2\./.test(name)
    ? "second transformer"
    : "transformer";
}

function rankOf(parts: ReadonlyMap<Part, TensorEntry>): number | undefined {
  return parts.get("down")?.shape[0] ?? parts.get("hada_w1_b")?.shape[0] ??
    parts.get("lokr_w2_b")?.shape[0];
}

/** Columns of most of the matrices that attention's queries come from. */
function widthOf(modules: readonly ModuleTensors[]): number | undefined {
  const widths = count(
    modules.filter(({ name }) => /(?:to_q|_q|\.q|qkv|linear1|qkv_mlp_proj|wq)$/.test(name))
      .flatMap(({ parts }) => parts.get("down")?.shape[1] ?? []),
  );
  const [usual] = Object.entries(widths).sort(([, a], [, b]) => b - a);
  return usual && Number(usual[0]);
}
