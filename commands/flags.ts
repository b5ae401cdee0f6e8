/** Reading the values of flags. */

import { InvalidArgumentError, Option } from "commander";
import {
  type Field,
  httpNames,
  REQUEST_FIELDS,
  SETTING_FIELDS,
  snakeCase,
} from "../generation/mod.ts";
import { isOrigin } from "../server/http/origin.ts";
import { LORA_TARGETS, type LoraTargetName } from "../generation/lora_words.ts";

/** Flags of the reference that are called otherwise here. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ["--num-outputs-per-prompt", "--num-outputs"],
  ["--output-file-path", "--output"],
  ["--image-path", "--image"],
  ["--image-paths", "--image"],
  ["--video-path", "--video"],
]);

/**
 * Brings flags into the spelling of this program: `--model_path` is `--model-path`.
 *
 * @returns the same arguments with other flag names; values are not touched
 */
export function normalizeArgs(args: readonly string[]): string[] {
  return args.map((arg) => {
    const [, name, value = ""] = /^(--[a-z][\w-]*)(=[\s\S]*)?$/i.exec(arg) ?? [];
    if (name === undefined) return arg;
    const dashed = name.replaceAll("_", "-");
    return (ALIASES.get(dashed) ?? dashed) + value;
  });
}

/**
 * The flag of a field.
 *
 * @param name of its row, such as `numFrames` or `guidanceScale2`
 * @returns such as `--num-frames` or `--guidance-scale-2`
 */
export function flagName(name: string): string {
  return `--${snakeCase(name).replaceAll("_", "-").replace(/(?<!\d)\d+$/, "-$&")}`;
}

/** The flag of a field by a name that it has over HTTP; undefined where no row has it. */
export function flagOfField(http: string): string | undefined {
  return FLAGS_OF_FIELDS.get(http);
}

const FLAGS_OF_FIELDS: ReadonlyMap<string, string> = new Map([
  ["size", "--size"],
  ...Object.entries({ ...REQUEST_FIELDS, ...SETTING_FIELDS }).flatMap(([name, row]) =>
    httpNames(name, row).map((http): [string, string] => [http, flagName(name)])
  ),
]);

/** Makes an option of a row. */
export function fieldOption(
  name: string,
  { text, kind, placeholder = kind, choices }: Field,
): Option {
  const words = text
    .replace(/`([^`]*)`/g, (_, word: string) => flagOfField(word) ?? word)
    .replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());
  if (kind === "flag") return new Option(flagName(name), words);
  const option = new Option(`${flagName(name)} <${placeholder}>`, words);
  if (choices) return option.choices(choices);
  if (kind === "integers") return option.argParser<number[]>(seeds);
  if (kind === "numbers") return option.argParser<number[]>(numbers);
  return kind === "text" ? option : option.argParser(kind === "integer" ? integer(1) : nonNegative);
}

/**
 * Makes a reader of integers.
 *
 * @returns a reader that throws `InvalidArgumentError`
 */
export function integer(
  lowest: number,
  highest: number = Number.MAX_SAFE_INTEGER,
): (text: string) => number {
  return (text) => {
    const value = /^[+-]?\d+$/.test(text.trim()) ? Number(text) : NaN;
    if (Number.isSafeInteger(value) && value >= lowest && value <= highest) return value;
    const isBounded = highest < Number.MAX_SAFE_INTEGER || Number(text) > highest;
    const range = isBounded ? `from ${lowest} to ${highest}` : `of at least ${lowest}`;
    throw new InvalidArgumentError(`It must be an integer ${range}.`);
  };
}

/**
 * Reads a number that is not negative.
 *
 * @param text such as `3.5`
 * @throws {InvalidArgumentError} for anything else
 */
export function nonNegative(text: string): number {
  const value = text.trim() === "" ? NaN : Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new InvalidArgumentError("It must be a number of at least 0.");
}

/**
 * Reads a number above 0.
 *
 * @param text such as `1.5`
 * @throws {InvalidArgumentError} for anything else
 */
export function positive(text: string): number {
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError("It must be a number above 0.");
}

/**
 * Collects seeds: the flag may be repeated, and hold several with commas or spaces between.
 *
 * @param text such as `7` or `7,8,9`; -1 stands for a new one
 * @throws {InvalidArgumentError} for what is not a seed
 */
export function seeds(text: string, before: readonly number[] = []): number[] {
  return [...before, ...text.trim().split(/[\s,]+/).map(integer(-1))];
}

/**
 * Collects numbers that are not negative: the flag may be repeated, and hold several with commas or spaces between.
 *
 * @param text such as `0.8` or `1,0.5,0.5`
 * @throws {InvalidArgumentError} for what is none
 */
function numbers(text: string, before: readonly number[] = []): number[] {
  return [...before, ...text.trim().split(/[\s,]+/).map(nonNegative)];
}

/**
 * Reads numbers of GPUs, with commas or spaces between.
 *
 * @param text such as `0,2`
 * @throws {InvalidArgumentError} for what is none
 */
export function gpuNumbers(text: string): number[] {
  return text.trim().split(/[\s,]+/).map(integer(0, 255));
}

/**
 * Collects the GPUs of models: the flag may be repeated.
 *
 * @param text such as `small=0,1`
 * @throws {InvalidArgumentError} for what is no name with numbers
 */
export function pin(
  text: string,
  before: Readonly<Record<string, number[]>> = {},
): Record<string, number[]> {
  const [, name, gpus] = /^(.+)=([\d\s,]+)$/.exec(text.trim()) ?? [];
  if (name && gpus) return { ...before, [name]: gpuNumbers(gpus) };
  throw new InvalidArgumentError("It must be a model's name and numbers of GPUs: small=0,1.");
}

/**
 * Reads an address under which something is reached.
 *
 * @param text such as `https://images.example.org/denoise`
 * @returns the address without a slash at the end
 * @throws {InvalidArgumentError} for anything else, and for an address with a query or a user
 */
export function address(text: string): string {
  const url = URL.parse(text.trim());
  const isPlain = url !== null && /^https?:$/.test(url.protocol) && url.username === "" &&
    url.search === "" && url.hash === "";
  if (isPlain) return url.href.replace(/(?<!\/)\/+$/, "");
  throw new InvalidArgumentError("It must be an address such as https://images.example.org.");
}

/**
 * Collects origins of pages; the flag may be repeated.
 *
 * @param text such as `https://app.example` or `app://obsidian.md`, or `*` for any
 * @throws {InvalidArgumentError} for what no page's `Origin` is
 */
export function origins(text: string, before: readonly string[] | undefined): string[] {
  const one = text.trim();
  if (one === "*" || isOrigin(one)) return [...before ?? [], one];
  throw new InvalidArgumentError("It must be an origin such as https://app.example, or *.");
}

/**
 * Collects names of hosts; the flag may be repeated.
 *
 * @param text such as `images.example.org` or `[::1]`, or `*` for any
 * @throws {InvalidArgumentError} for what is no name, or has a scheme or a port
 */
export function hosts(text: string, before: readonly string[] | undefined): string[] {
  const one = text.trim();
  if (/^(?:\*|\[[\da-f:.]+\]|[\w.-]+)$/i.test(one)) return [...before ?? [], one];
  throw new InvalidArgumentError(
    "It must be a name without scheme and port, such as images.example.org, or *.",
  );
}

/**
 * Reads the value of a switch that is given one.
 *
 * @param text such as `true` or `off`
 * @throws {InvalidArgumentError} for anything else
 */
export function boolean(text: string): boolean {
  const value = BOOLEANS.get(text.toLowerCase());
  if (value === undefined) throw new InvalidArgumentError("It must be true or false.");
  return value;
}

/** Whether {@linkcode boolean} can read a text. */
export function isBoolean(text: string): boolean {
  return BOOLEANS.has(text.toLowerCase());
}

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ...["true", "1", "yes", "on"].map((word) => [word, true] as const),
  ...["false", "0", "no", "off"].map((word) => [word, false] as const),
]);

/** A LoRA as a flag names it. */
export interface LoraFlag {
  /** A file, a folder or a hub id. */
  path: string;
  /** How strongly. */
  strength?: number;
  /** The component that the LoRA changes. */
  target?: LoraTargetName;
  /** Replaces the alpha that the file gives. */
  alpha?: number;
}

/** How a LoRA is written. */
export const LORA_SYNTAX = "path[:strength[:target]][:alpha=number]";

/**
 * Collects LoRAs, each as {@linkcode LORA_SYNTAX}; the flag may be repeated.
 *
 * @param text such as `style.safetensors:0.8:transformer`
 * @throws {InvalidArgumentError} for a strength, a target or an alpha that is none
 */
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
  if (isWrong || path === "" || /\.safetensors:|:[+-]?[\d.]+:/i.test(path)) {
    throw new InvalidArgumentError(
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

const UNITS = ["", "k", "m", "g", "t"];

/**
 * Reads an amount of memory.
 *
 * @param text such as `8`, `8G`, `8GiB`, `6.5g` or `900M`; GiB where no unit is given
 * @returns bytes
 * @throws {InvalidArgumentError} for anything else, and for nothing
 */
export function memory(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([kmgt])?(?:i?b)?$/i.exec(text.trim());
  const unit = UNITS.indexOf(match?.[2]?.toLowerCase() ?? "g");
  const bytes = Math.floor(Number(match?.[1]) * 1024 ** unit);
  if (bytes > 0) return bytes;
  throw new InvalidArgumentError("It must be an amount of memory such as 8G or 900M.");
}

const DURATION_MS: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/**
 * Reads a length of time.
 *
 * @param text such as `90s`, `30m`, `12h`, `7d`, `1.5d`, `2w`, or `0`
 * @returns milliseconds
 * @throws {InvalidArgumentError} for anything else
 */
export function duration(text: string): number {
  const [, count, unit] = /^(\d+(?:\.\d+)?)\s*([smhdw])?$/i.exec(text.trim()) ?? [];
  const ms = Math.round(Number(count) * (unit ? DURATION_MS[unit.toLowerCase()]! : 0));
  // A number alone could be meant in any unit; only of nothing there is no doubt.
  const isClear = unit !== undefined || Number(count) === 0;
  if (isClear && Number.isSafeInteger(ms)) return ms;
  throw new InvalidArgumentError("It must be a length of time such as 30m, 12h or 7d, or 0.");
}
