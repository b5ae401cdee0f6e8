/** Components of a model as families open them: their configuration checked, their weights not yet read. */
import type { z } from "zod";
import type { Weights } from "../../runtime/mod.ts";
import type { ModelFiles } from "../checkpoints/model_files.ts";
import { parseConfig } from "../config.ts";

/** A component that has weights. */
export interface WeightedComponent<Config> {
  readonly config: Config;
  readonly weights: Weights;
}

/** One whose weights can be opened, once all components are known to fit together. */
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
