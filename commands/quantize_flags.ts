/** Reading the types that `denoise quantize` is given. */

import { InvalidArgumentError } from "commander";
import {
  QUANTIZE_TYPES,
  type QuantizedType,
  quantizedType,
  type TypeRule,
} from "../models/checkpoints/quantize/types.ts";

export { QUANTIZE_TYPES };

/**
 * Reads a type.
 *
 * @param text such as `q4_k`
 * @throws {InvalidArgumentError} for anything else
 */
export function quantizeType(text: string): QuantizedType {
  const type = quantizedType(text.trim());
  if (type) return type;
  throw new InvalidArgumentError(`It must be one of ${QUANTIZE_TYPES.join(", ")}.`);
}

/**
 * Collects types for tensors by their names.
 *
 * @param text such as `ffn.*=q8_0`, a regular expression and a type
 * @throws {InvalidArgumentError} for anything else
 */
export function tensorType(text: string, before: readonly TypeRule[] = []): TypeRule[] {
  const [, source, name] = /^(.+)=([^=]+)$/.exec(text.trim()) ?? [];
  if (source === undefined) {
    throw new InvalidArgumentError("It must be a pattern and a type, such as attn.*=q8_0.");
  }
  try {
    return [...before, { pattern: new RegExp(source), type: quantizeType(name!) }];
  } catch (error) {
    if (error instanceof InvalidArgumentError) throw error;
    throw new InvalidArgumentError(`Its pattern is no regular expression: ${source}.`);
  }
}
