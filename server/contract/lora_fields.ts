/** The fields of requests about LoRAs, and of the list of LoRAs that any generation may bring. */

import { z } from "zod";
import type { FieldTable } from "./fields.ts";
import { flag, number, text } from "./generation_fields.ts";

/** A value, or a list of them; the message is for what is neither. */
function orList<T extends z.ZodType>(
  one: T,
  what: string,
): z.ZodUnion<[T, z.ZodArray<T>]> {
  return z.union([one, z.array(one)], {
    error: `Input should be a valid ${what} or a list of valid ${what}s`,
  });
}

const SET_FIELDS = {
  lora_nickname: orList(z.string(), "string"),
  lora_path: orList(z.string().nullable(), "string").nullish(),
  target: orList(z.string(), "string").nullish(),
  strength: orList(z.number(), "number").nullish(),
  merge_mode: text(),
  lora_alpha: orList(z.int().nullable(), "integer").nullish(),
  strict: flag(),
};

/** The body of `set_lora`; unknown fields are kept. */
export const setLoraSchema: z.ZodObject<typeof SET_FIELDS, z.core.$loose> = z.looseObject(
  SET_FIELDS,
);

export type SetLoraBody = z.output<typeof setLoraSchema>;

const MERGE_FIELDS = { target: text(), strength: number() };

/** The body of `merge_lora_weights`; unknown fields are kept. */
export const mergeLoraSchema: z.ZodObject<typeof MERGE_FIELDS, z.core.$loose> = z.looseObject(
  MERGE_FIELDS,
);

const UNMERGE_FIELDS = { target: text() };

/** The body of `unmerge_lora_weights`; unknown fields are kept. */
export const unmergeLoraSchema: z.ZodObject<typeof UNMERGE_FIELDS, z.core.$loose> = z.looseObject(
  UNMERGE_FIELDS,
);

/** The fields that each of the three knows. */
export const loraFieldTables: Readonly<Record<"set" | "merge" | "unmerge", FieldTable>> = {
  set: { known: Object.keys(SET_FIELDS), withoutEffect: new Map() },
  merge: { known: Object.keys(MERGE_FIELDS), withoutEffect: new Map() },
  unmerge: { known: Object.keys(UNMERGE_FIELDS), withoutEffect: new Map() },
};
