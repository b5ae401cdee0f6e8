/** Which values are of a field's kind, for callers who may give any. */

import type { Field } from "./field_values.ts";
import { shorten } from "./texts.ts";

type Kind = Field["kind"];

const TYPES: Readonly<Record<Kind, { readonly of: string; readonly words: string }>> = {
  flag: { of: "boolean", words: "true or false" },
  text: { of: "string", words: "a text" },
  integer: { of: "number", words: "an integer" },
  number: { of: "number", words: "a number" },
  texts: { of: "string", words: "a list of texts" },
  integers: { of: "number", words: "a list of integers" },
  numbers: { of: "number", words: "a list of numbers" },
};

export function isListKind(kind: Kind): boolean {
  return /^(?:text|integer|number)s$/.test(kind);
}

/** @throws {RangeError} that names the field by `name`, for a value of another type */
export function checkKind(value: unknown, kind: Kind, name: string): void {
  const { of, words } = TYPES[kind];
  const values = isListKind(kind) ? value : [value];
  if (Array.isArray(values) && values.every((each) => typeof each === of)) return;
  throw new RangeError(`${name} must be ${words}, got ${shown(value)}`);
}

function shown(value: unknown): string {
  return shorten(typeof value === "string" ? `the text "${value}"` : String(value));
}
