/** How components are recognised in files that carry no `config.json`, by the names and shapes of their tensors. */
import type { JsonObject } from "../../hub/json_file.ts";
import type { PART_COMPONENTS, PartName } from "../../hub/model_index.ts";
import type { GgufValue, TensorSource } from "../../runtime/mod.ts";
import type { Layout } from "../layouts.ts";
import type { Tokenizer } from "../tokenizers/mod.ts";

/** Components that have weights, as `model_index.json` names them. */
export type ComponentName = Exclude<
  typeof PART_COMPONENTS[PartName],
  "transformer_2" | "refiner" | "tokenizer" | "tokenizer_2" | "tokenizer_3"
>;

export interface ComponentNaming {
  /** Tensors that together only this component has, without prefix and as files name them. */
  readonly probes: readonly string[];
  readonly layout?: Layout | ((tensors: TensorSource) => Layout);
  /** Gives the tensors our names where a table of names cannot; in place of `layout`. */
  readonly view?: (tensors: TensorSource) => TensorSource;
}

/** A file, with what it states of itself if it is GGUF. */
export type FormatFile = TensorSource & { readonly metadata?: ReadonlyMap<string, GgufValue> };

export interface ComponentFormat {
  readonly name: string;
  readonly component: ComponentName;
  readonly className: string;
  /** `general.architecture` of GGUF files that hold it, as llama.cpp and ComfyUI-GGUF read it; tensors are under our names. */
  readonly architecture?: string | ((tensors: TensorSource) => string);
  readonly namings: readonly ComponentNaming[];
  /** Whether the component is this one, where names do not tell; looks at tensors under our names, and at the whole file. */
  fits?(tensors: TensorSource, file: FormatFile): boolean;
  /** The tokenizer of text encoders that all have the same one, which their files do not hold. */
  readonly tokenizer?: () => Promise<Tokenizer>;
  /** What its `config.json` would say: what the tensors tell, and what published checkpoints have in common. */
  config(tensors: TensorSource, metadata?: ReadonlyMap<string, GgufValue>): JsonObject;
}

export interface FamilyDefaults {
  readonly className: string;
  readonly settings: JsonObject;
  readonly scheduler: JsonObject;
  /** Keys of the autoencoder's configuration that the transformer's file tells. */
  readonly vae?: JsonObject;
  readonly needs?: readonly ComponentName[];
  /** Whether the second text encoder is the only one. */
  readonly lacksFirstEncoder?: boolean;
  /** Hub ids of models whose other components go with it, best first. */
  readonly repositories: readonly string[];
}

export interface FamilyFiles {
  /** Pipeline classes whose text encoder needs its vision tower, which may lie in a file of its own beside it. */
  readonly seeingClasses?: readonly string[];
  /** The transformer first. Text encoders and autoencoders may be those of other families too. */
  readonly formats: readonly ComponentFormat[];
  /** Only a user who names a second transformer, for low noise, has `hasSecond`; `file` is all that the transformer's holds. */
  defaults(
    transformer: JsonObject,
    path: string,
    hasSecond?: boolean,
    file?: TensorSource,
  ): FamilyDefaults;
}

/** Shape of a tensor that a component must have; trailing sizes of 1 beyond the rank are omitted. */
export function shapeOf(tensors: TensorSource, name: string, rank: number): number[] {
  const shape = tensors.find(name)?.shape ?? [];
  const extra = shape.slice(rank);
  if (shape.length >= rank && extra.every((size) => size === 1)) return shape.slice(0, rank);
  if (!tensors.find(name)) throw incomplete(tensors, name);
  throw new SyntaxError(
    `Cannot read "${tensors.path}": tensor "${name}" has the shape [${
      shape.join(", ")
    }], ${rank} sizes are expected; fetch the file again`,
  );
}

/** How many numbered modules there are: numbers from 0 on that stand between `before` and `after` in some name. */
export function countModules(tensors: TensorSource, before: string, after = "."): number {
  return moduleNames(tensors, before, after).size;
}

/** As {@linkcode countModules}, of modules that are all alike; the first one alone may have `only`. */
export function countLayers(tensors: TensorSource, before: string, only?: string): number {
  const layers = moduleNames(tensors, before, ".");
  const all = new Set([...layers.values()].flatMap((names) => [...names]));
  for (const [number, names] of layers) {
    const missing = [...all].find((name) => !names.has(name) && name !== only);
    if (missing !== undefined) throw incomplete(tensors, `${before}${number}.${missing}`);
  }
  return layers.size;
}

function moduleNames(tensors: TensorSource, before: string, after: string) {
  const modules = new Map<number, Set<string>>();
  for (const name of tensors.names) {
    if (!name.startsWith(before)) continue;
    const rest = name.slice(before.length);
    const digits = /^\d{1,4}/.exec(rest)?.[0];
    if (!digits || !rest.startsWith(after, digits.length)) continue;
    const names = modules.get(Number(digits)) ?? new Set();
    modules.set(Number(digits), names.add(rest.slice(digits.length + after.length)));
  }
  for (let number = 0; number < modules.size; number++) {
    if (!modules.has(number)) throw incomplete(tensors, `${before}${number}`);
  }
  return modules;
}

function incomplete({ path }: TensorSource, lacking: string): SyntaxError {
  return new SyntaxError(
    `Cannot read "${path}": it lacks "${lacking}"; it is incomplete or a part of a model, fetch all of it`,
  );
}

interface DoubleStreamSizes {
  readonly in_channels: number;
  readonly num_layers: number;
  readonly num_single_layers: number;
  readonly attention_head_dim: number;
  readonly num_attention_heads: number;
  readonly joint_attention_dim: number;
}

export function doubleStreamSizes(tensors: TensorSource): DoubleStreamSizes {
  const [dim, channels] = shapeOf(tensors, "x_embedder.weight", 2) as [number, number];
  const headDim = shapeOf(tensors, "transformer_blocks.0.attn.norm_q.weight", 1)[0]!;
  return {
    in_channels: channels,
    num_layers: countModules(tensors, "transformer_blocks."),
    num_single_layers: countModules(tensors, "single_transformer_blocks."),
    attention_head_dim: headDim,
    num_attention_heads: dim / headDim,
    joint_attention_dim: shapeOf(tensors, "context_embedder.weight", 2)[1]!,
  };
}
