/**
 * The OpenAPI document of the service, from the schemas that requests are checked with.
 *
 * Source: OpenAPI Specification 3.1.0.
 */

import { z } from "zod";
import type { FieldTable } from "../contract/fields.ts";
import {
  imageEditFieldTable,
  imageEditSchema,
  imageFieldTable,
  imageGenerationSchema,
  videoFieldTable,
  videoSchema,
} from "../contract/generation_fields.ts";
import {
  loraFieldTables,
  mergeLoraSchema,
  setLoraSchema,
  unmergeLoraSchema,
} from "../contract/lora_requests.ts";
import {
  ARCHIVE_FIELD_NOTES,
  archiveFieldTable,
  archiveSchema,
  PARTS_FIELD_NOTES,
  partsFieldTable,
  partsSchema,
  PULL_FIELD_NOTES,
  pullFieldTable,
  pullSchema,
} from "../contract/small_requests.ts";
import { version } from "../../generation/version.ts";
import { ANSWERS } from "../contract/answers.ts";
import {
  FIELD_NOTES,
  FIELD_VALUES,
  type FieldValues,
  LORA_FIELD_NOTES,
  VIDEO_FIELD_VALUES,
} from "./field_notes.ts";
import type { BodyName, Operation } from "./operation.ts";

/** A JSON Schema, as far as it is looked at here. */
export interface JsonSchema {
  type?: string | string[];
  anyOf?: JsonSchema[];
  properties?: Record<string, JsonSchema>;
  /** Fields that must be there. */
  required?: string[];
  /** Schema of a list's items. */
  items?: JsonSchema;
  description?: string;
  [keyword: string]: unknown;
}

export interface OpenApiDocument {
  /** Version of the specification. */
  openapi: "3.1.0";
  info: { title: string; version: string; description: string };
  /** Addresses of the service. */
  servers: { url: string }[];
  /** Keys that are asked for; an empty object for none. */
  security: Record<string, string[]>[];
  /** Operations by path and method. */
  paths: Record<string, Record<string, Record<string, unknown>>>;
  /** What operations refer to. */
  components: {
    schemas: Record<string, JsonSchema>;
    responses: Record<string, unknown>;
    securitySchemes: Record<string, unknown>;
  };
}

interface Body {
  readonly schema: z.ZodObject;
  readonly table: FieldTable;
  /** What fields mean; {@link FIELD_NOTES} by default. */
  readonly notes?: Readonly<Record<string, string>>;
  /** Values of fields that differ from {@link FIELD_VALUES}. */
  readonly values?: Readonly<Record<string, FieldValues>>;
}

const BODIES: Readonly<Record<BodyName, Body>> = {
  ImageGeneration: { schema: imageGenerationSchema, table: imageFieldTable },
  ImageEdit: { schema: imageEditSchema, table: imageEditFieldTable },
  VideoRequest: {
    schema: videoSchema,
    table: videoFieldTable,
    values: VIDEO_FIELD_VALUES,
  },
  SetLora: { schema: setLoraSchema, table: loraFieldTables.set, notes: LORA_FIELD_NOTES },
  MergeLora: { schema: mergeLoraSchema, table: loraFieldTables.merge, notes: LORA_FIELD_NOTES },
  UnmergeLora: {
    schema: unmergeLoraSchema,
    table: loraFieldTables.unmerge,
    notes: LORA_FIELD_NOTES,
  },
  PullModel: { schema: pullSchema, table: pullFieldTable, notes: PULL_FIELD_NOTES },
  ChangeParts: { schema: partsSchema, table: partsFieldTable, notes: PARTS_FIELD_NOTES },
  ArchiveResults: {
    schema: archiveSchema,
    table: archiveFieldTable,
    notes: ARCHIVE_FIELD_NOTES,
  },
};

/** What is said of fields that change nothing. */
export const NO_EFFECT = "Accepted, without effect";

/** Fields that a form may bring as files. */
const FILE_FIELDS: readonly string[] = [
  ...["image", "input_reference", "video_reference"],
  ...["video", "last_image", "mask", "audio", "control", "reference", "reference_mask"],
];

export function openApiDocument(
  operations: readonly Operation[],
  needsKey: boolean,
  url = "/",
): OpenApiDocument {
  const paths: OpenApiDocument["paths"] = {};
  for (const operation of operations) {
    (paths[operation.path] ??= {})[operation.method] = describeOperation(operation);
  }
  const schemas: Record<string, JsonSchema> = {};
  const forms = new Set(
    operations.filter(({ body }) => body?.types.some((type) => type.startsWith("multipart/")))
      .map(({ body }) => body!.schema),
  );
  for (const [name, body] of Object.entries(BODIES)) {
    schemas[name] = bodySchema(body);
    if (forms.has(name as BodyName)) schemas[`${name}Form`] = formSchema(schemas[name]);
  }
  for (const [name, schema] of Object.entries(ANSWERS)) {
    schemas[name] = jsonSchema(schema, "output");
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "denoise",
      version,
      description: "Images and videos of diffusion models. Fields that a request carries without " +
        "effect are named in the header `x-ignored-fields` of its answer. Where a result is larger than the model " +
        "was made for, `x-drawn-at` is the size from which it was enlarged.",
    },
    servers: [{ url }],
    security: needsKey ? [{ key: [] }] : [{}],
    paths,
    components: {
      schemas,
      responses: {
        Error: { description: "What is wrong, for people and programs", ...json("Error") },
      },
      securitySchemes: { key: { type: "http", scheme: "bearer" } },
    },
  };
}

/** The header of requests that may be sent again. */
const IDEMPOTENCY_KEY = {
  name: "Idempotency-Key",
  in: "header",
  description:
    "Anything unique: the same request with the same key within 24 hours is answered with the same job, " +
    "and has the header `idempotent-replayed` then; another request with that key is a 422",
  schema: { type: "string", minLength: 1, maxLength: 255 },
};

function describeOperation(operation: Operation): Record<string, unknown> {
  const { id, tag, summary, path, query = [], body, answer, job, events } = operation;
  const { isFile, isOnce } = operation;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  const parameters = [
    ...names.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } })),
    ...query.map(([name, type, description, values]) => ({
      name,
      in: "query",
      description,
      schema: { type, ...values },
    })),
    ...(isOnce ? [IDEMPOTENCY_KEY] : []),
  ];
  const content = "json" in answer ? json(answer.json).content : media(answer.types);
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body
      ? { requestBody: { required: body.isOptional !== true, content: bodyContent(body) } }
      : {}),
    responses: {
      200: {
        description: events ? `The result; as events: ${events}` : "The result",
        content: { ...content, ...(events ? media(["text/event-stream"]) : {}) },
      },
      ...(job
        ? { 202: { description: "The job, with `Prefer: respond-async`", ...json(job) } }
        : {}),
      ...(isFile
        ? {
          206: { description: "The part that `Range` asks for", content },
          304: { description: "The file that the client has already" },
          307: { description: "The file is in a cloud, at the address in `Location`" },
        }
        : {}),
      default: { $ref: "#/components/responses/Error" },
    },
  };
}

function json(name: string) {
  return { content: { "application/json": { schema: reference(name) } } };
}

function media(types: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(types.map((type) => [type, {}]));
}

function bodyContent({ schema, types }: NonNullable<Operation["body"]>): Record<string, unknown> {
  if (schema === "File") return media(types);
  return Object.fromEntries(types.map((type) => {
    return [type, { schema: reference(type === "multipart/form-data" ? `${schema}Form` : schema) }];
  }));
}

function reference(name: string): { $ref: string } {
  return { $ref: `#/components/schemas/${name}` };
}

function jsonSchema(schema: z.ZodType, io: "input" | "output"): JsonSchema {
  const { $schema: _, ...document } = z.toJSONSchema(schema, {
    io,
    override: ({ jsonSchema }) => {
      // That an integer is one which a double holds says nothing to a reader.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  return document as JsonSchema;
}

function bodySchema(
  { schema, table: { withoutEffect }, notes = FIELD_NOTES, values: own }: Body,
): JsonSchema {
  const document = jsonSchema(schema, "input");
  for (const [name, field] of Object.entries(document.properties ?? {})) {
    field.description = withoutEffect.has(name) ? NO_EFFECT : notes[name] ?? name;
    const values = own?.[name] ?? FIELD_VALUES[name];
    if (values) restrict(field, values);
  }
  return document;
}

/** Says what a field may be; null, with which it is as by default, stays. */
function restrict(field: JsonSchema, values: FieldValues): void {
  if (field.anyOf) Object.assign(field.anyOf[0]!, values);
  else if ("enum" in values) field["enum"] = [...values.enum, null];
  else Object.assign(field, values);
}

/** The schema of a form: the same fields, with files where a form may have them. */
function formSchema({ properties = {}, ...schema }: JsonSchema): JsonSchema {
  const file = { type: "string", contentMediaType: "application/octet-stream" };
  const fields = Object.entries(properties).map(([name, field]): [string, JsonSchema] => {
    if (!FILE_FIELDS.includes(name)) return [name, field];
    const description = field.description ?? name;
    return [name, {
      anyOf: [file, { type: "array", items: file }, { type: "string" }],
      description,
    }];
  });
  return { ...schema, properties: Object.fromEntries(fields) };
}
