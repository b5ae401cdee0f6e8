/**
 * The texts of a form as the values that they stand for.
 *
 * @module
 */

import { z } from "zod";

const FLAGS: Readonly<Record<string, boolean>> = {
  true: true,
  false: false,
  "1": true,
  "0": false,
  on: true,
  off: false,
  yes: true,
  no: false,
};

/**
 * Reads each text by the type that a schema gives its field: what does not read as that type stays
 * a text, so that checking it says what is wrong with it. An empty text counts as absent.
 *
 * @param fields of a form
 * @param schema of the same request as JSON
 * @returns values for the schema
 */
export function readScalars(
  fields: Readonly<Record<string, string | string[]>>,
  schema: z.ZodObject,
): Record<string, unknown> {
  const types = fieldTypes(schema);
  const entries = Object.entries(fields).flatMap(([name, value]): [string, unknown][] => {
    const type = types.get(name) ?? new Set();
    if (Array.isArray(value)) {
      const isList = type.has("array");
      return [[
        name,
        isList ? value.map((item) => readScalar(item, type)) : readScalar(value.at(-1)!, type),
      ]];
    }
    return value === "" && !type.has("string") ? [] : [[name, readScalar(value, type)]];
  });
  return Object.fromEntries(entries);
}

function readScalar(text: string, type: ReadonlySet<string>): unknown {
  const trimmed = text.trim();
  if (type.has("boolean")) return FLAGS[trimmed.toLowerCase()] ?? text;
  if ((type.has("integer") || type.has("number")) && /^[+-]?(?:\d|\.\d)[\d.e+-]*$/i.test(trimmed)) {
    const number = Number(trimmed);
    return Number.isFinite(number) ? number : text;
  }
  if (type.has("object") || type.has("array")) {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }
  return text;
}

/** JSON types that each field may have. */
function fieldTypes(schema: z.ZodObject): Map<string, Set<string>> {
  const { properties = {} } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  return new Map(
    Object.entries(properties).map(([name, property]) => [name, new Set(typesOf(property))]),
  );
}

function typesOf(schema: z.core.JSONSchema._JSONSchema): string[] {
  if (typeof schema === "boolean") return [];
  const own = schema.type === undefined ? [] : [schema.type].flat() as string[];
  return [...own, ...(schema.anyOf ?? []).flatMap(typesOf)];
}
