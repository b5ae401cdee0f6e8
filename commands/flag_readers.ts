/** Readers of flags that only commands have. */

import { integer, nonNegative } from "../generation/flag.ts";
import { LORA_TARGETS, type LoraTargetName } from "../generation/lora_words.ts";
import {
  QUANTIZE_TYPES,
  type QuantizedType,
  quantizedType,
  type TypeRule,
} from "../models/checkpoints/quantize/types.ts";

export { QUANTIZE_TYPES };

/** Collects seeds, such as `7` or `7,8,9`; -1 stands for a new one. */
export function seeds(text: string, before: readonly number[] = []): number[] {
  return [...before, ...text.trim().split(/[\s,]+/).map(integer(-1))];
}

/** Collects numbers of at least 0, such as `0.8` or `1,0.5,0.5`. */
export function numbers(text: string, before: readonly number[] = []): number[] {
  return [...before, ...text.trim().split(/[\s,]+/).map(nonNegative)];
}

export function gpuNumbers(text: string): number[] {
  return text.trim().split(/[\s,]+/).map(integer(0, 255));
}

/** Collects the GPUs of models, such as `small=0,1`. */
export function pin(
  text: string,
  before: Readonly<Record<string, number[]>> = {},
): Record<string, number[]> {
  const [, name, gpus] = /^(.+)=([\d\s,]+)$/.exec(text.trim()) ?? [];
  if (name && gpus) return { ...before, [name]: gpuNumbers(gpus) };
  throw new RangeError("It must be a model's name and numbers of GPUs: small=0,1.");
}

export interface LoraFlag {
  /** A file, a folder or a hub id. */
  path: string;
  strength?: number;
  target?: LoraTargetName;
  /** Replaces the alpha that the file gives. */
  alpha?: number;
}

export const LORA_SYNTAX = "path[:strength[:target]][:alpha=number]";

/** Collects LoRAs, each as {@linkcode LORA_SYNTAX}. */
export function lora(text: string, before: readonly LoraFlag[] = []): LoraFlag[] {
  // From the right: a path may have colons of its own, as on Windows.
  const parts = text.trim().split(":");
  const alpha = parts.at(-1)!.startsWith("alpha=")
    ? Number(parts.pop()!.slice("alpha=".length) || NaN)
    : undefined;
  const target = LORA_TARGETS.find((known) => parts.length > 1 && known === parts.at(-1));
  if (target !== undefined) parts.pop();
  const last = parts.length > 1 ? parts.at(-1)! : "";
  const strength = last !== "" && Number.isFinite(Number(last)) ? Number(last) : undefined;
  if (strength !== undefined) parts.pop();
  const path = parts.join(":");
  const isWrong = alpha !== undefined && !(alpha > 0 && alpha < Infinity);
  if (isWrong || path === "" || /\.(?:safetensors|ckpt|pth?|bin):|:[+-]?[\d.]+:/i.test(path)) {
    throw new RangeError(
      `It must be ${LORA_SYNTAX}, with a number as strength, a number above 0 as alpha and ${
        LORA_TARGETS.join(", ")
      } as target.`,
    );
  }
  return [...before, {
    path,
    ...(strength === undefined ? {} : { strength }),
    ...(target === undefined ? {} : { target }),
    ...(alpha === undefined ? {} : { alpha }),
  }];
}

/** Reads a type of `quantize`, such as `q4_k`. */
export function quantizeType(text: string): QuantizedType {
  const type = quantizedType(text.trim());
  if (type) return type;
  throw new RangeError(`It must be one of ${QUANTIZE_TYPES.join(", ")}.`);
}

/** Collects types for tensors by their names: a regular expression and a type, such as `ffn.*=q8_0`. */
export function tensorType(text: string, before: readonly TypeRule[] = []): readonly TypeRule[] {
  const [, source, name] = /^(.+)=([^=]+)$/.exec(text.trim()) ?? [];
  if (source === undefined) {
    throw new RangeError("It must be a pattern and a type, such as attn.*=q8_0.");
  }
  return [...before, { pattern: pattern(source), type: quantizeType(name!) }];
}

function pattern(source: string): RegExp {
  try {
    return new RegExp(source);
  } catch {
    throw new RangeError(`Its pattern is no regular expression: ${source}.`);
  }
}
