/** The body of `POST /v1/pulls`. */

import { z } from "zod";
import { type FieldTable, ignoredFields, refuseField } from "./fields.ts";
import { flag } from "./generation_fields.ts";
import { readScalars, validate } from "./validate.ts";

const FIELDS = { model: z.string().min(1).max(500), stream: flag() };

/** Unknown fields are kept. */
export const pullSchema: z.ZodObject<typeof FIELDS, z.core.$loose> = z.looseObject(FIELDS);

export const pullFieldTable: FieldTable = { known: Object.keys(FIELDS), withoutEffect: new Map() };

export const PULL_FIELD_NOTES: Readonly<Record<string, string>> = {
  model: "An `id` of the catalogue, also with a precision as `z-image-turbo:q4_k`, or a hub id, " +
    "`org/name` or `org/name:file`; required",
  stream: "Answer with server-sent events until the pull ends",
};

export function readPull(
  json: unknown,
  { strictFields }: { readonly strictFields: boolean },
): { model: string; stream: boolean; ignored: readonly string[] } {
  const body = validate(pullSchema, readScalars(json, pullSchema));
  const ignored = ignoredFields(body, pullFieldTable);
  if (strictFields && ignored[0] !== undefined) refuseField(ignored[0], pullFieldTable);
  return { model: body.model, stream: body.stream === true, ignored };
}
