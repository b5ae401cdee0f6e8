/** Flags that name parts of a model. */

import type { ModelParts } from "../mod.ts";

const PARTS: Readonly<Record<keyof ModelParts, true>> = {
  transformer: true,
  transformer2: true,
  textEncoder: true,
  textEncoder2: true,
  imageEncoder: true,
  mmproj: true,
  vae: true,
  tinyDecoder: true,
  controlnet: true,
  upscaler: true,
  frameInterpolator: true,
  tokenizer: true,
  tokenizer2: true,
};

/**
 * The parts that flags name.
 *
 * @returns the parts, without those that no flag names
 */
export function partsOf(flags: ModelParts): ModelParts {
  const names = Object.keys(PARTS) as (keyof ModelParts)[];
  return Object.fromEntries(
    names.flatMap((name) => (flags[name] === undefined ? [] : [[name, flags[name]]])),
  );
}
