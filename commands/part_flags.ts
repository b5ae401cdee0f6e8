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
export function partsOf(
  { transformer, transformer2, textEncoder, imageEncoder, vae, tokenizer }: ModelParts,
): ModelParts {
  return {
    ...(transformer === undefined ? {} : { transformer }),
    ...(transformer2 === undefined ? {} : { transformer2 }),
    ...(imageEncoder === undefined ? {} : { imageEncoder }),
    ...(textEncoder === undefined ? {} : { textEncoder }),
    ...(vae === undefined ? {} : { vae }),
    ...(tokenizer === undefined ? {} : { tokenizer }),
  };
}
