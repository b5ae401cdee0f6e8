/** The parts that every family's pipeline has: opened with configurations checked, nothing on the device. */
import type { z } from "zod";
import type { Weights } from "../../runtime/mod.ts";
import type { ConfigFile, ModelFiles } from "../checkpoints/model_files.ts";
import { parseConfig } from "../config.ts";
import type { Components } from "../memory/stage.ts";
import type { PipelineInfo } from "../pipeline.ts";
import { refuseFields } from "../schedulers/config.ts";
import { createScheduler, type Scheduler } from "../schedulers/mod.ts";
import type { Tokenizer } from "../tokenizers/mod.ts";

/** A component that has weights. */
export interface WeightedComponent<Config> {
  readonly config: Config;
  readonly weights: Weights;
}

/** See the file comment; families add what else they need. */
export interface FamilyComponents<Transformer = unknown, TextEncoder = unknown, Vae = unknown>
  extends Disposable {
  readonly tokenizer: Tokenizer;
  readonly scheduler: Scheduler;
  readonly textEncoder: WeightedComponent<TextEncoder>;
  readonly transformer: WeightedComponent<Transformer>;
  readonly vae: WeightedComponent<Vae>;
}

/** Their weights under the names by which memory plans call them, in the order of use. */
export function componentsOf({ textEncoder, transformer, vae }: FamilyComponents): Components {
  return {
    "text encoder": textEncoder.weights,
    "transformer": transformer.weights,
    "autoencoder": vae.weights,
  };
}

/** Storage types of their weights. */
export function precisionsOf(
  { transformer, vae, textEncoder }: FamilyComponents,
): PipelineInfo["precisions"] {
  const precision = ({ weights }: WeightedComponent<unknown>) => weights.mainFormat.toLowerCase();
  return {
    transformer: precision(transformer),
    vae: precision(vae),
    textEncoder: precision(textEncoder),
  };
}

/**
 * Opens all parts.
 *
 * @param files are the result's from here on, and closed when it fails
 * @param openAll with the functions below
 * @throws {Error} naming the file and what is wrong with it
 */
export async function openComponents<Parts extends object>(
  files: ModelFiles,
  openAll: (files: ModelFiles) => Promise<Parts>,
): Promise<Parts & Disposable> {
  try {
    return { ...await openAll(files), [Symbol.dispose]: () => files[Symbol.dispose]() };
  } catch (error) {
    files[Symbol.dispose]();
    throw error;
  }
}

/** A component whose weights can be opened, once all are known to fit together. */
export interface UnopenedComponent<Config> {
  readonly config: Config;
  open(): WeightedComponent<Config>;
}

/**
 * Reads what a component is.
 *
 * @param name as `model_index.json` has it
 * @param classNames what it may be
 * @throws {Error} naming the file and what is wrong with it
 */
export async function readComponent<Schema extends z.ZodType>(
  files: ModelFiles,
  name: string,
  classNames: readonly string[],
  schema: Schema,
): Promise<UnopenedComponent<z.output<Schema>>> {
  const { config: json, path, openWeights } = await files.component(name, classNames);
  const config = parseConfig(schema, json, path);
  return { config, open: () => ({ config, weights: openWeights() }) };
}

/** Two sizes that must be equal, each with its name. */
export type SizeCheck = readonly [name: string, value: number, otherName: string, other: number];

/**
 * Refuses components that do not fit together.
 *
 * @param path of the model
 * @throws {SyntaxError} naming both sizes
 */
export function checkFit(path: string, checks: readonly SizeCheck[]): void {
  for (const [name, value, otherName, other] of checks) {
    if (value === other) continue;
    throw new SyntaxError(
      `Cannot use "${path}": the ${name} is ${value}, the ${otherName} is ${other}; ` +
        "the components belong to different models, fetch them again",
    );
  }
}

/**
 * Opens the tokenizer.
 *
 * @param vocabularySize of the text encoder
 * @throws {SyntaxError} when it has ids that the text encoder lacks
 */
export async function openTokenizer(files: ModelFiles, vocabularySize: number): Promise<Tokenizer> {
  const tokenizer = await files.tokenizer();
  if (tokenizer.vocabSize <= vocabularySize) return tokenizer;
  throw new SyntaxError(
    `Cannot use "${files.path}": the tokenizer has ${tokenizer.vocabSize} ids, the text encoder's vocab_size is ${vocabularySize}`,
  );
}

/**
 * Makes the scheduler.
 *
 * @param refused switches that the family's pipelines have no use for
 * @throws {TypeError} naming the file, when it asks for what is not supported
 */
export function openScheduler({ path, config }: ConfigFile, refused: readonly string[]): Scheduler {
  try {
    refuseFields(config, refused);
    return createScheduler(config);
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    throw new TypeError(`${cause.message} (in ${path})`, { cause });
  }
}
