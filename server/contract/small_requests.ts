/** The bodies of `POST /v1/pulls`, `POST /v1/models/{id}/parts` and `POST /v1/jobs/archive`. */

import { z } from "zod";
import { type FieldTable, ignoredFields, refuseField } from "./fields.ts";
import { flag } from "./generation_fields.ts";
import { readScalars, validate } from "./validate.ts";

/** Most results of an archive. */
const MAX_RESULTS = 1000;

const PULL_FIELDS = { model: z.string().min(1).max(500), stream: flag() };
const ARCHIVE_FIELDS = { results: z.array(z.string().max(60)).min(1).max(MAX_RESULTS) };

const names = () => z.array(z.string().max(100)).max(16).nullish();
const PARTS_FIELDS = { control_nets: names(), ip_adapters: names() };

/** Unknown fields are kept. */
export const pullSchema: z.ZodObject<typeof PULL_FIELDS, z.core.$loose> = z.looseObject(
  PULL_FIELDS,
);
export const archiveSchema: z.ZodObject<typeof ARCHIVE_FIELDS, z.core.$loose> = z.looseObject(
  ARCHIVE_FIELDS,
);

export const partsSchema: z.ZodObject<typeof PARTS_FIELDS, z.core.$loose> = z.looseObject(
  PARTS_FIELDS,
);

export const partsFieldTable: FieldTable = tableOf(PARTS_FIELDS);
export const pullFieldTable: FieldTable = tableOf(PULL_FIELDS);
export const archiveFieldTable: FieldTable = tableOf(ARCHIVE_FIELDS);

export const PULL_FIELD_NOTES: Readonly<Record<string, string>> = {
  model: "An `id` of the catalogue, also with a precision as `z-image-turbo:q4_k`, or a hub id, " +
    "`org/name` or `org/name:file`; required",
  stream: "Answer with server-sent events until the pull ends",
};
export const PARTS_FIELD_NOTES: Readonly<Record<string, string>> = {
  control_nets:
    "ControlNets that it has from now on, by the ids of its `parts`; no change by default, none with an empty list",
  ip_adapters: "IP-Adapters that it has from now on; no change by default",
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

export function readParts(json: unknown, policy: Policy): {
  controlNets: readonly string[] | undefined;
  ipAdapters: readonly string[] | undefined;
  ignored: readonly string[];
} {
  const body = validate(partsSchema, json);
  const { control_nets, ip_adapters } = body;
  return {
    controlNets: control_nets ?? undefined,
    ipAdapters: ip_adapters ?? undefined,
    ignored: findIgnored(body, partsFieldTable, policy),
  };
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
