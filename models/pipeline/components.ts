/** The parts of a model: opened from one table, configurations checked, nothing on the device. */
import type { z } from "zod";
import type { Weights } from "../../runtime/mod.ts";
import type { OptionalComponentName } from "../checkpoints/component_format.ts";
import type { ConfigFile, ModelFiles } from "../checkpoints/model_files.ts";
import { parseConfig } from "../config.ts";
import { TINY_DECODER_CONFIG, type TinyDecoderConfig } from "../autoencoders/tiny/config.ts";
import {
  FRAME_INTERPOLATOR_CONFIG,
  type FrameInterpolatorConfig,
} from "../frame_interpolators/config.ts";
import type { Components } from "../memory/components.ts";
import { refuseFields } from "../schedulers/config.ts";
import { createScheduler, type Scheduler } from "../schedulers/mod.ts";
import { UPSCALER_CONFIG, type UpscalerConfig } from "../upscalers/config.ts";
import type { Tokenizer } from "../tokenizers/mod.ts";
import { OPTIONAL_PARTS, type OptionalPart } from "./types.ts";

/** A component that has weights. */
export interface Component<Config = unknown> {
  readonly config: Config;
  readonly weights: Weights;
}

/** How a component is read. */
interface ComponentSpec<Schema extends z.ZodType = z.ZodType> {
  /** Classes that `model_index.json` may name. */
  readonly classNames: readonly string[];
  /** What its `config.json` may say. */
  readonly config: Schema;
}

/** What enlarges results, whatever the family. */
const UPSCALER = { classNames: ["SRVGGNetCompact", "RRDBNet"], config: UPSCALER_CONFIG };

/** What puts frames between others, whatever the family. */
const FRAME_INTERPOLATOR = { classNames: ["IFNet"], config: FRAME_INTERPOLATOR_CONFIG };

/** Two sizes that must be equal, each with its name. */
export type SizeCheck = readonly [name: string, value: number, otherName: string, other: number];

/** Components by their names in `model_index.json`. */
type Specs = Readonly<Record<string, ComponentSpec>>;

/** Configurations of those that a model has. */
type ConfigsOf<Others extends Specs> = {
  readonly [Name in keyof Others]?: z.output<Others[Name]["config"]> | undefined;
};

/** The parts of a family's models. */
export interface PartsTable<
  Transformer extends z.ZodType = z.ZodType,
  TextEncoder extends z.ZodType = z.ZodType,
  Vae extends z.ZodType = z.ZodType,
  Settings extends z.ZodType = z.ZodType,
  Solver extends Scheduler = Scheduler,
  // deno-lint-ignore ban-types -- none
  Others extends Specs = {},
> {
  readonly transformer: ComponentSpec<Transformer>;
  readonly textEncoder: ComponentSpec<TextEncoder>;
  readonly vae: ComponentSpec<Vae>;
  /** Those that only some of the family's models have, by their names in `model_index.json`. */
  readonly others?: Others;
  /** The keys of `model_index.json` that change what the pipeline does. */
  readonly settings: Settings;
  /** The schedulers that the family takes. */
  readonly scheduler: {
    /** Class that it must be; any when left out. */
    readonly type?: abstract new (...args: never[]) => Solver;
    /** Switches that the family has no use for. */
    readonly refused: readonly string[];
  };
  /**
   * Sizes that must be equal for the components to belong together.
   *
   * @param configs of the components
   */
  readonly fits: (configs: {
    readonly transformer: z.output<Transformer>;
    readonly textEncoder: z.output<TextEncoder>;
    readonly vae: z.output<Vae>;
    readonly others: ConfigsOf<Others>;
  }) => readonly SizeCheck[];
  /** Tiny decoders that the models can have beside their autoencoder; none when left out. */
  readonly tinyDecoder?: {
    readonly className: TinyDecoderConfig["_class_name"];
    /** Sizes that must be equal for one to belong to the autoencoder. */
    readonly fits: (tiny: TinyDecoderConfig, vae: z.output<Vae>) => readonly SizeCheck[];
  };
  /** Refuses tokenizers that the family cannot use. */
  readonly checkTokenizer?: (tokenizer: Tokenizer, path: string) => void;
}

/** Gives a table its types. */
export function partsTable<
  T extends z.ZodType,
  E extends z.ZodType,
  V extends z.ZodType,
  S extends z.ZodType,
  Solver extends Scheduler = Scheduler,
  // deno-lint-ignore ban-types -- none
  Others extends Specs = {},
>(table: PartsTable<T, E, V, S, Solver, Others>): PartsTable<T, E, V, S, Solver, Others> {
  return table;
}

/** Components that only some models have. */
type OtherComponents = Readonly<Record<string, Component | undefined>>;

/** Those that a model of a table has. */
type OthersOf<Others extends Specs> = {
  readonly [Name in keyof Others]?: Component<z.output<Others[Name]["config"]>> | undefined;
};

/** The opened parts of a model. */
export interface Parts<
  Transformer = unknown,
  TextEncoder = unknown,
  Vae = unknown,
  Settings = unknown,
  Solver extends Scheduler = Scheduler,
  Others extends OtherComponents = OtherComponents,
> extends Disposable {
  readonly transformer: Component<Transformer>;
  readonly textEncoder: Component<TextEncoder>;
  readonly vae: Component<Vae>;
  /** Those that only some models have, by their names in `model_index.json`. */
  readonly others: Others;
  readonly tinyDecoder?: Component<TinyDecoderConfig> | undefined;
  readonly upscaler?: Component<UpscalerConfig> | undefined;
  readonly frameInterpolator?: Component<FrameInterpolatorConfig> | undefined;
  readonly settings: Settings;
  readonly tokenizer: Tokenizer;
  readonly scheduler: Solver;
  /** What the scheduler was made from. */
  readonly schedulerFile: ConfigFile;
}

/** The parts that a table describes. */
export type PartsOf<Table> = Table extends
  PartsTable<infer T, infer E, infer V, infer S, infer Solver, infer Others>
  ? Parts<z.output<T>, z.output<E>, z.output<V>, z.output<S>, Solver, OthersOf<Others>>
  : never;

/** Weights by the names that memory plans use, in the order of use. */
export function componentsOf(parts: Parts): Components {
  const { textEncoder, transformer, vae, tinyDecoder, upscaler, frameInterpolator } = parts;
  const { image_encoder, transformer_2 } = parts.others;
  return {
    "text encoder": textEncoder.weights,
    ...(image_encoder && { "image encoder": image_encoder.weights }),
    transformer: transformer.weights,
    ...(transformer_2 && { "transformer 2": transformer_2.weights }),
    autoencoder: vae.weights,
    ...tinyDecoder && { "tiny decoder": tinyDecoder.weights },
    ...frameInterpolator && { "frame interpolator": frameInterpolator.weights },
    ...upscaler && { upscaler: upscaler.weights },
  };
}

/** Which of the parts that models can do without are there. */
export function optionalPartsOf(parts: Parts): OptionalPart[] {
  return OPTIONAL_PARTS.filter((part) => parts[part] !== undefined);
}

/**
 * Opens all parts.
 *
 * @param files are the result's from here on, and closed when it fails
 * @throws {Error} naming the file and what is wrong with it
 */
export async function openParts<
  T extends z.ZodType,
  E extends z.ZodType,
  V extends z.ZodType,
  S extends z.ZodType,
  Solver extends Scheduler,
  Others extends Specs,
>(
  files: ModelFiles,
  table: PartsTable<T, E, V, S, Solver, Others>,
): Promise<
  Parts<z.output<T>, z.output<E>, z.output<V>, z.output<S>, Solver, OthersOf<Others>>
> {
  try {
    const settings = parseConfig(table.settings, files.settings, files.path);
    const [transformer, openTransformer] = await readComponent(
      files,
      "transformer",
      table.transformer,
    );
    const [vae, openVae] = await readComponent(files, "vae", table.vae);
    const [textEncoder, openText] = await readComponent(files, "text_encoder", table.textEncoder);
    const others: Record<string, Awaited<ReturnType<typeof readComponent>>> = {};
    for (const [name, spec] of Object.entries(table.others ?? {})) {
      if (files.has(name)) others[name] = await readComponent(files, name, spec);
    }
    const entries = Object.entries(others);
    const configs = Object.fromEntries(entries.map(([name, [config]]) => [name, config]));
    checkFit(
      files.path,
      table.fits({ transformer, textEncoder, vae, others: configs as ConfigsOf<Others> }),
    );
    const openTiny = await readTinyDecoder(files, table, vae);
    const openUpscaler = await readOptional(files, "upscaler", UPSCALER);
    const openInterpolator = await readOptional(files, "frame_interpolator", FRAME_INTERPOLATOR);
    const schedulerFile = await files.scheduler();
    const scheduler = openScheduler(schedulerFile, table.scheduler);
    const { vocab_size } = textEncoder as { readonly vocab_size: number };
    const tokenizer = await openTokenizer(files, vocab_size);
    table.checkTokenizer?.(tokenizer, files.path);
    return {
      settings,
      tokenizer,
      scheduler,
      schedulerFile,
      textEncoder: openText(),
      transformer: openTransformer(),
      vae: openVae(),
      others: Object.fromEntries(
        entries.map(([name, [, open]]) => [name, open()]),
      ) as OthersOf<Others>,
      tinyDecoder: openTiny?.(),
      upscaler: openUpscaler?.(),
      frameInterpolator: openInterpolator?.(),
      [Symbol.dispose]: () => files[Symbol.dispose](),
    };
  } catch (error) {
    files[Symbol.dispose]();
    throw error;
  }
}

/** A configuration, and what opens the weights, once all are known to fit together. */
async function readComponent<Schema extends z.ZodType>(
  files: ModelFiles,
  name: string,
  { classNames, config: schema }: ComponentSpec<Schema>,
): Promise<[z.output<Schema>, () => Component<z.output<Schema>>]> {
  const { config: json, path, openWeights } = await files.component(name, classNames);
  const config = parseConfig(schema, json, path);
  return [config, () => ({ config, weights: openWeights() })];
}

async function readOptional<Schema extends z.ZodType>(
  files: ModelFiles,
  name: OptionalComponentName,
  spec: ComponentSpec<Schema>,
): Promise<(() => Component<z.output<Schema>>) | undefined> {
  return files.has(name) ? (await readComponent(files, name, spec))[1] : undefined;
}

async function readTinyDecoder<Vae>(
  files: ModelFiles,
  { tinyDecoder: table }: {
    readonly tinyDecoder?: {
      readonly className: string;
      readonly fits: (tiny: TinyDecoderConfig, vae: Vae) => readonly SizeCheck[];
    };
  },
  vae: Vae,
): Promise<(() => Component<TinyDecoderConfig>) | undefined> {
  if (!files.has("tiny_decoder")) return undefined;
  const spec = { classNames: table ? [table.className] : [], config: TINY_DECODER_CONFIG };
  const [config, open] = await readComponent(files, "tiny_decoder", spec);
  if (table) checkFit(files.path, table.fits(config, vae));
  return open;
}

function checkFit(path: string, checks: readonly SizeCheck[]): void {
  for (const [name, value, otherName, other] of checks) {
    if (value === other) continue;
    throw new SyntaxError(
      `Cannot use "${path}": the ${name} is ${value}, the ${otherName} is ${other}; ` +
        "the components belong to different models, fetch them again",
    );
  }
}

async function openTokenizer(files: ModelFiles, vocabularySize: number): Promise<Tokenizer> {
  const tokenizer = await files.tokenizer();
  if (tokenizer.vocabSize <= vocabularySize) return tokenizer;
  throw new SyntaxError(
    `Cannot use "${files.path}": the tokenizer has ${tokenizer.vocabSize} ids, the text encoder's vocab_size is ${vocabularySize}`,
  );
}

function openScheduler<Solver extends Scheduler>(
  { path, config }: ConfigFile,
  { type, refused }: PartsTable<z.ZodType, z.ZodType, z.ZodType, z.ZodType, Solver>["scheduler"],
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
