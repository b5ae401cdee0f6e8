/** The bodies of `POST /v1/pulls` and `POST /v1/jobs/archive`. */

import { z } from "zod";
import { type FieldTable, ignoredFields, refuseField } from "./fields.ts";
import { flag } from "./generation_fields.ts";
import { readScalars, validate } from "./validate.ts";

/** Most results of an archive. */
const MAX_RESULTS = 1000;

const PULL_FIELDS = { model: z.string().min(1).max(500), stream: flag() };
const ARCHIVE_FIELDS = { results: z.array(z.string().max(60)).min(1).max(MAX_RESULTS) };

/** Unknown fields are kept. */
export const pullSchema: z.ZodObject<typeof PULL_FIELDS, z.core.$loose> = z.looseObject(
  PULL_FIELDS,
);
export const archiveSchema: z.ZodObject<typeof ARCHIVE_FIELDS, z.core.$loose> = z.looseObject(
  ARCHIVE_FIELDS,
);

export const pullFieldTable: FieldTable = tableOf(PULL_FIELDS);
export const archiveFieldTable: FieldTable = tableOf(ARCHIVE_FIELDS);

export const PULL_FIELD_NOTES: Readonly<Record<string, string>> = {
  model: "An `id` of the catalogue, also with a precision as `z-image-turbo:q4_k`, or a hub id, " +
    "`org/name` or `org/name:file`; required",
  stream: "Answer with server-sent events until the pull ends",
};
export const ARCHIVE_FIELD_NOTES: Readonly<Record<string, string>> = {
  results:
    `Up to ${MAX_RESULTS} ids of finished jobs, for all results of each, or an id, a slash ` +
    "and which of several, from 0; required",
};

interface Policy {
  readonly strictFields: boolean;
}

export function readPull(
  json: unknown,
  policy: Policy,
): { model: string; stream: boolean; ignored: readonly string[] } {
  const body = validate(pullSchema, readScalars(json, pullSchema));
  const { model, stream } = body;
  return { model, stream: stream === true, ignored: findIgnored(body, pullFieldTable, policy) };
}

export function readArchive(
  json: unknown,
  policy: Policy,
): { results: readonly string[]; ignored: readonly string[] } {
  const body = validate(archiveSchema, json);
  return { results: body.results, ignored: findIgnored(body, archiveFieldTable, policy) };
}

function tableOf(fields: object): FieldTable {
  return { known: Object.keys(fields), withoutEffect: new Map() };
}

function findIgnored(
  body: Record<string, unknown>,
  table: FieldTable,
  { strictFields }: Policy,
): readonly string[] {
  const ignored = ignoredFields(body, table);
  if (strictFields && ignored[0] !== undefined) refuseField(ignored[0], table);
  return ignored;
}
