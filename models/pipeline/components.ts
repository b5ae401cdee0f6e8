/** The parts of a model: opened from one table, configurations checked, nothing on the device. */
import type { z } from "zod";
import { type TensorSource, Weights } from "../../runtime/mod.ts";
import { type LowRankForm, openLowRank } from "../checkpoints/low_rank_source.ts";
import type { ComponentFiles, ConfigFile, ModelFiles } from "../checkpoints/model_files.ts";
import { COMPONENTS } from "../checkpoints/model_parts.ts";
import type { JsonObject } from "../../hub/json_file.ts";
import {
  CONTROLNET_PARTS,
  IP_ADAPTER_PARTS,
  PART_COMPONENTS,
  type PartName,
} from "../../hub/model_index.ts";
import { parseConfig } from "../config.ts";
import type { KlVaeConfig } from "../autoencoders/kl/config.ts";
import type { WanVaeConfig } from "../autoencoders/wan/config.ts";
import { type TinyDecoderConfig, tinyDecoderFit } from "../autoencoders/tiny/config.ts";
import {
  FRAME_INTERPOLATOR_CONFIG,
  type FrameInterpolatorConfig,
} from "../frame_interpolators/ifnet.ts";
import type { Lora } from "../lora/types.ts";
import type { Components } from "../memory/residency.ts";
import { refuseFields } from "../schedulers/config.ts";
import { createScheduler, DiffusionScheduler, type Scheduler } from "../schedulers/mod.ts";
import { UPSCALER_CONFIG, type UpscalerConfig } from "../upscalers/upscaler.ts";
import { EmbeddingFolder } from "../textual_inversion/embedding_folder.ts";
import type { Tokenizer } from "../tokenizers/mod.ts";
import type { OptionalPart } from "./types.ts";

export interface Component<Config = unknown> {
  readonly config: Config;
  /** Its file, or that of its configuration. */
  readonly path: string;
  readonly weights: Weights;
  /** What its file adds to the weights, where these are another component's. */
  readonly change?: Lora | undefined;
}

interface ComponentSpec {
  readonly classNames: readonly string[];
  readonly config: z.ZodType;
  /** Whether only some of the family's models have it. */
  readonly isOptional?: true;
  /** Whether nothing is computed with it, so that its weights stay in their files. */
  readonly isIdle?: true;
  readonly view?: (tensors: TensorSource) => TensorSource;
  /** Of files that hold it as changes of another component. */
  readonly lowRank?: LowRankForm;
  /** What a configuration says that was told from shapes alone, by the class of the pipeline. */
  readonly lacking?: (className: string) => JsonObject;
}

export function optionalPart<Config extends z.ZodType>(
  config: Config,
  ...classNames: readonly string[]
): { readonly classNames: readonly string[]; readonly config: Config; readonly isOptional: true } {
  return { classNames, config, isOptional: true };
}

const FINISHERS = {
  frameInterpolator: optionalPart(FRAME_INTERPOLATOR_CONFIG, "IFNet"),
  upscaler: optionalPart(UPSCALER_CONFIG, "SRVGGNetCompact", "RRDBNet"),
} as const;

const FAMILY_PARTS = {
  tinyDecoder: "a tiny decoder",
  ...Object.fromEntries(CONTROLNET_PARTS.map((part) => [part, "several ControlNets"])),
  ...Object.fromEntries(IP_ADAPTER_PARTS.map((part) => [part, "several IP-Adapters"])),
  latentUpsampler: "a latent upsampler",
  controlnet: "a ControlNet",
  ipAdapter: "an IP-Adapter",
  refiner: "a refiner",
};

export type SizeCheck = Readonly<Record<string, number>>;

/** Sizes of two components that have the same names in both. */
export function sameSizes<
  const One extends string,
  const Other extends string,
  const Key extends string,
>(one: One, other: Other, keys: readonly Key[]): [`${One}.${Key}`, `${Other}.${Key}`][] {
  return keys.map((key) => [`${one}.${key}`, `${other}.${key}`]);
}

/** Components in the order of use. `model_index.json` writes a name such as `textEncoder2` as `text_encoder_2`. */
type Specs = Readonly<Record<string, ComponentSpec>>;

/** What the configurations of components say; nothing of those that a model lacks. */
type ConfigsOf<Own extends Specs> = {
  readonly [Name in keyof Own]:
    | z.output<Own[Name]["config"]>
    | (Own[Name] extends { readonly isOptional: true } ? undefined : never);
};

/** A key of a component's configuration, such as `transformer.in_channels`. */
type SizeName<Own extends Specs> = {
  [Name in keyof Own & string]: `${Name}.${keyof z.output<Own[Name]["config"]> & string}`;
}[keyof Own & string];

export interface PartsTable<
  Own extends Specs = Specs,
  Settings extends z.ZodType = z.ZodType,
  Solver extends Scheduler = Scheduler,
> {
  readonly components: Own;
  /** The keys of `model_index.json` that change what the pipeline does. */
  readonly settings: Settings;
  readonly scheduler: {
    readonly type?: abstract new (...args: never[]) => Solver;
    readonly refused?: readonly string[];
  };
  /** Sizes that must be equal for the components to belong together, where the model has both. */
  readonly equal: readonly (readonly [string, string])[];
  /** What else must be so; refuses what does not go together whatever the sizes. */
  fits?(
    configs: ConfigsOf<Own>,
    settings: z.output<Settings>,
    className: string,
  ): readonly SizeCheck[];
  /**
   * Of two text encoders the one whose states are the prompt's tokens, and the one that sums a prompt up in a vector; the
   * latter may be one that only some of the family's models have.
   */
  readonly encoders?:
    | { readonly tokens: "textEncoder2"; readonly pooled: "textEncoder" }
    | { readonly tokens: "textEncoder"; readonly pooled: "textEncoder2" };
  readonly checkTokenizer?: (tokenizer: Tokenizer, path: string) => void;
}

export function partsTable<
  const Own extends Specs,
  Settings extends z.ZodType,
  Solver extends Scheduler = Scheduler,
>(
  table: PartsTable<Own, Settings, Solver> & {
    readonly equal: readonly (readonly [SizeName<NoInfer<Own>>, SizeName<NoInfer<Own>>])[];
  },
): PartsTable<Own, Settings, Solver> {
  return table;
}

interface PooledTokenizer {
  readonly tokenizer: Tokenizer;
  readonly maxLength: number;
}

export interface Parts<Settings = unknown, Solver extends Scheduler = Scheduler>
  extends Disposable {
  readonly transformer: Component;
  readonly transformer2?: Component | undefined;
  /** What judged the transformer while it learnt to do with few steps; see {@linkcode ComponentSpec.isIdle}. */
  readonly fakeScoreTransformer?: Component | undefined;
  readonly textEncoder: Component;
  readonly textEncoder2?: Component | undefined;
  readonly textEncoder3?: Component | undefined;
  readonly vae: Component;
  readonly tinyDecoder?: Component<TinyDecoderConfig> | undefined;
  readonly controlnet?: Component | undefined;
  readonly ipAdapter?: Component | undefined;
  readonly refiner?: Component | undefined;
  readonly frameInterpolator?: Component<FrameInterpolatorConfig> | undefined;
  readonly upscaler?: Component<UpscalerConfig> | undefined;
  readonly components: Components;
  readonly className: string;
  readonly settings: Settings;
  readonly tokenizer: Tokenizer;
  readonly pooledTokenizer?: PooledTokenizer | undefined;
  readonly thirdTokenizer?: Tokenizer | undefined;
  readonly scheduler: Solver;
  readonly schedulerFile: ConfigFile;
  /** Textual inversions, of families that read prompts in chunks. */
  readonly embeddings: EmbeddingFolder;
}

export type PartsOf<Table> = Table extends PartsTable<infer Own, infer Settings, infer Solver> ?
    & Omit<Parts<z.output<Settings>, Solver>, keyof Own>
    & {
      readonly [Name in keyof Own]: undefined extends ConfigsOf<Own>[Name]
        ? Component<NonNullable<ConfigsOf<Own>[Name]>> | undefined
        : Component<ConfigsOf<Own>[Name]>;
    }
  : never;

export function optionalPartsOf(parts: Parts): OptionalPart[] {
  const all = ["tinyDecoder", "controlnet", "ipAdapter", "refiner", "upscaler"] as const;
  return [...all, "frameInterpolator" as const].filter((part) => parts[part] !== undefined);
}

/** Opens all parts; the files belong to them from here on, and are closed when it fails. */
export async function openParts<Table extends PartsTable>(
  files: ModelFiles,
  table: Table,
  embeddings?: string,
): Promise<PartsOf<Table>> {
  try {
    const settings = parseConfig(table.settings, await files.allSettings(), files.path);
    const configs: Record<string, unknown> = {};
    const opening: [name: string, open: () => Omit<Component, "config">][] = [];
    for (const [name, words] of Object.entries(FAMILY_PARTS)) {
      if (!files.has(indexName(name)) || Object.hasOwn(table.components, name)) continue;
      throw new TypeError(
        `Cannot use ${words} with "${files.path}": models of this family take no such part; omit it`,
      );
    }
    const specs: Specs = { ...table.components, ...FINISHERS };
    const found = new Map<string, ComponentFiles>();
    for (const [name, spec] of Object.entries(specs)) {
      const { classNames, config, isOptional, view, lacking, lowRank } = spec;
      const fileName = indexName(name);
      if (isOptional && !files.has(fileName)) continue;
      const component = await files.component(fileName, classNames);
      found.set(name, component);
      const { path } = component;
      const base = lowRank?.isFor(component.config) ? found.get(lowRank.base) : undefined;
      if (lowRank && base) {
        configs[name] = parseConfig(config, lowRank.config(component.config, base.config), path);
        opening.push([name, () => {
          const { tensors, change } = openLowRank(component.open(), base.open(), lowRank);
          return { path, weights: new Weights(tensors), change };
        }]);
        continue;
      }
      const said = { ...lacking?.(files.className), ...component.config };
      configs[name] = parseConfig(config, said, path);
      opening.push([name, () => ({ path, weights: component.openWeights(view) })]);
    }
    checkFit(files.path, [
      ...table.fits?.(configs, settings, files.className) ?? [],
      ...table.equal.flatMap((pair) => equalSizes(pair, configs)),
      ...tinyDecoderFit(
        configs["tinyDecoder"] as TinyDecoderConfig | undefined,
        configs["vae"] as KlVaeConfig | WanVaeConfig,
      ),
    ]);
    const schedulerFile = await files.scheduler();
    const scheduler = openScheduler(schedulerFile, table.scheduler);
    if (files.saysNoise && !(scheduler instanceof DiffusionScheduler)) {
      throw new TypeError(
        `Cannot choose what "${files.path}" predicts: it is a flow model, and predicts velocity; ` +
          "omit parts.predictionType and parts.rescaleBetasZeroSnr",
      );
    }
    const tokenizerOf = (encoder: string) =>
      openTokenizer(files, encoder, configs[encoder] as EncoderConfig);
    const { tokens, pooled } = table.encoders ?? { tokens: "textEncoder" };
    const tokenizer = await tokenizerOf(tokens);
    const hasPooled = pooled !== undefined && configs[pooled] !== undefined;
    const pooledTokenizer = !hasPooled ? undefined : {
      tokenizer: await tokenizerOf(pooled),
      maxLength: (configs[pooled] as EncoderConfig).max_position_embeddings,
    };
    const thirdTokenizer = configs["textEncoder3"] && await tokenizerOf("textEncoder3");
    table.checkTokenizer?.(tokenizer, files.path);
    // Weights are opened once all are known to fit together.
    const opened = opening.map(([name, open]) => [name, open()] as const);
    return {
      ...Object.fromEntries(
        opened.map(([name, files]) => [name, { config: configs[name], ...files }]),
      ),
      components: Object.fromEntries(
        opened.filter(([name]) => !specs[name]!.isIdle)
          .map(([name, { weights }]) => [spokenName(name), weights]),
      ),
      className: files.className,
      settings,
      tokenizer,
      pooledTokenizer,
      thirdTokenizer,
      scheduler,
      schedulerFile,
      embeddings: new EmbeddingFolder(embeddings),
      [Symbol.dispose]: () => files[Symbol.dispose](),
    } as unknown as PartsOf<Table>;
  } catch (error) {
    files[Symbol.dispose]();
    throw error;
  }
}

/** Files and folders that say nothing of what they hold, and commits of the hub's cache. */
const GENERIC = /^(?:config\.json|diffusion_pytorch_model.*|snapshots|[0-9a-f]{40})$/;

/** What users call a component: the name of its file, folder or repository. */
export function componentName(path: string): string {
  const places = path.split(/[\\/]/);
  const own = places.findLast((place) => place !== "" && !GENERIC.test(place)) ?? path;
  return own.replace(/^models--.*--/, "").replace(/\.(?:safetensors|gguf|pth|pt|ckpt|bin)$/, "");
}

function spokenName(name: string): string {
  return name === "vae" ? "autoencoder" : indexName(name).replaceAll("_", " ");
}

function indexName(name: string): string {
  return PART_COMPONENTS[name as PartName] ??
    name.replace(/[A-Z]|\d+/g, (part) => `_${part.toLowerCase()}`);
}

function equalSizes(
  pair: readonly string[],
  configs: Readonly<Record<string, unknown>>,
): SizeCheck[] {
  const sizes = pair.map((name) => {
    const [part, key] = name.split(".") as [keyof typeof COMPONENTS, string];
    const config = configs[part] as Readonly<Record<string, number | null>> | undefined;
    return [`${COMPONENTS[part].words}'s ${key}`, config?.[key]] as const;
  });
  return sizes.every(([, size]) => typeof size === "number")
    ? [Object.fromEntries(sizes) as SizeCheck]
    : [];
}

function checkFit(path: string, checks: readonly SizeCheck[]): void {
  for (const check of checks) {
    const [[name, value], [otherName, other]] = Object.entries(check) as [
      [string, number],
      [string, number],
    ];
    if (value === other) continue;
    throw new SyntaxError(
      `Cannot use "${path}": the ${name} is ${value}, the ${otherName} is ${other}; ` +
        "the components belong to different models, fetch them again",
    );
  }
}

interface EncoderConfig {
  readonly vocab_size: number;
  readonly max_position_embeddings: number;
}

async function openTokenizer(
  files: ModelFiles,
  encoder: string,
  { vocab_size }: EncoderConfig,
): Promise<Tokenizer> {
  const name = indexName(encoder).replace("text_encoder", "tokenizer");
  const tokenizer = await files.tokenizer(name);
  if (tokenizer.vocabSize <= vocab_size) return tokenizer;
  throw new SyntaxError(
    `Cannot use "${files.path}": the ${name} has ${tokenizer.vocabSize} ids, the ${
      spokenName(encoder)
    }'s vocab_size is ${vocab_size}`,
  );
}

function openScheduler<Solver extends Scheduler>(
  { path, config }: ConfigFile,
  { type, refused = [] }: PartsTable<
    Specs,
    z.ZodType,
    Solver
  >["scheduler"],
): Solver {
  try {
    refuseFields(config, refused);
    const scheduler = createScheduler(config);
    if (!type || scheduler instanceof type) return scheduler as Solver;
    throw new TypeError(
      `Cannot make a scheduler: the model takes ${type.name}, not ${config["_class_name"]}`,
    );
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    throw new TypeError(`${cause.message} (in ${path})`, { cause });
  }
}
