/**
 * Numbers and flags that come as text: read as the reference reads them, whose schemas are lax.
 *
 * Source: the conversion table of pydantic 2, in lax mode.
 */

import { z } from "zod";

type Node = z.core.JSONSchema._JSONSchema;

const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ...["true", "t", "1", "on", "yes", "y"].map((word) => [word, true] as const),
  ...["false", "f", "0", "off", "no", "n"].map((word) => [word, false] as const),
]);

const NUMBER = /^[+-]?(?:\d|\.\d)[\d.e+-]*$/i;

/** A schema's fields; it is a constant, and describing it takes as long as the rest of a request. */
const fieldsOf = new WeakMap<z.ZodObject, Readonly<Record<string, Node>>>();

/** The fields of a schema. */
export function fieldNodes(schema: z.ZodObject): Readonly<Record<string, Node>> {
  const known = fieldsOf.get(schema);
  if (known) return known;
  const { properties = {} } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  fieldsOf.set(schema, properties);
  return properties;
}

/**
 * The JSON types that a field may have.
 *
 * @returns their names; none for a field that the schema does not have
 */
export function typesOf(node: Node | undefined): ReadonlySet<string> {
  return new Set(variantsOf(node).flatMap(({ type }) => type ?? []));
}

/**
 * Reads texts of numbers and flags as what they stand for, flags as numbers, and 0 and 1 as flags, where the schema
 * wants that. What does not read as its field's type stays as it is, so that checking it says what is wrong with it.
 *
 * @param body a JSON value; what is no object stays as it is
 */
export function readScalars(body: unknown, schema: z.ZodObject): unknown {
  return readObject(body, fieldNodes(schema));
}

function readObject(value: unknown, fields: Readonly<Record<string, Node>>): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      name,
      Object.hasOwn(fields, name) ? readValue(item, fields[name]) : item,
    ]),
  );
}

function readValue(value: unknown, node: Node | undefined): unknown {
  if (typeof value !== "object") return readScalar(value, typesOf(node));
  for (const { items, properties } of variantsOf(node)) {
    if (Array.isArray(value) && items !== undefined && !Array.isArray(items)) {
      return value.map((item) => readValue(item, items));
    }
    if (properties !== undefined) return readObject(value, properties);
  }
  return value;
}

function readScalar(value: unknown, types: ReadonlySet<string>): unknown {
  const isNumber = types.has("integer") || types.has("number");
  if (typeof value === "boolean") return isNumber && !types.has("boolean") ? Number(value) : value;
  if (typeof value === "number") {
    return types.has("boolean") && !isNumber ? FLAGS.get(String(value)) ?? value : value;
  }
  if (typeof value !== "string" || types.has("string")) return value;
  const text = value.trim();
  if (types.has("boolean")) return FLAGS.get(text.toLowerCase()) ?? value;
  const number = isNumber && NUMBER.test(text) ? Number(text) : NaN;
  return Number.isFinite(number) ? number : value;
}

/** A field's alternatives, itself included. */
function variantsOf(node: Node | undefined): Exclude<Node, boolean>[] {
  if (node === undefined || typeof node === "boolean") return [];
  return [node, ...(node.anyOf ?? []).flatMap(variantsOf)];
}
