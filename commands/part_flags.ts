/**
 * Flags that name parts of a model.
 *
 * @module
 */

import type { ModelParts } from "../mod.ts";

/**
 * The parts that flags name.
 *
 * @param flags of the command line
 * @returns the parts, without those that no flag names
 */
export function partsOf({ transformer, textEncoder, vae, tokenizer }: ModelParts): ModelParts {
  return {
    ...(transformer === undefined ? {} : { transformer }),
    ...(textEncoder === undefined ? {} : { textEncoder }),
    ...(vae === undefined ? {} : { vae }),
    ...(tokenizer === undefined ? {} : { tokenizer }),
  };
}
