/** Flags of the fields of requests. */

import {
  type Field,
  httpNames,
  REQUEST_FIELDS,
  SETTING_FIELDS,
  snakeCase,
} from "../generation/mod.ts";
import { type Flag, integer, nonNegative, texts } from "../generation/flag.ts";
import type { SamplingSettings } from "../mod.ts";
import { numbers, seeds } from "./flag_readers.ts";

interface KindValues {
  text: string;
  integer: number;
  number: number;
  integers: number[];
  texts: readonly string[];
  numbers: number[];
  flag: boolean;
}

type RequestValues = {
  [Name in keyof typeof REQUEST_FIELDS]: (typeof REQUEST_FIELDS)[Name] extends
    { choices: readonly (infer Choice)[] } ? Choice
    : KindValues[(typeof REQUEST_FIELDS)[Name]["kind"]];
};

type AllFieldValues = RequestValues & Required<SamplingSettings>;

const READERS = { integer: integer(0), number: nonNegative, integers: seeds, numbers, texts };

/** The flag of a property: `--num-frames` of `numFrames`, `--guidance-scale-2` of `guidanceScale2`. */
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

export const FIELD_FLAGS = Object.fromEntries(
  Object.entries({ ...REQUEST_FIELDS, ...SETTING_FIELDS })
    .map(([name, field]) => [name, fieldFlag(field)]),
) as { readonly [Name in keyof AllFieldValues]: Flag<AllFieldValues[Name], false> };

/** The flag of a row; what its text says of other fields, it says of their flags. */
export function fieldFlag(
  { text, kind, placeholder = kind, choices }: Field,
): Flag<unknown, false> {
  const words = text
    .replace(/`([^`]*)`/g, (_, word: string) => flagOfField(word) ?? word)
    .replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());
  return {
    kind: kind === "flag" ? "on" : "value",
    text: words,
    placeholder,
    isSure: false,
    ...(kind in READERS && { read: READERS[kind as keyof typeof READERS] }),
    ...(choices && { choices }),
  };
}
