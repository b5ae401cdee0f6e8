/** Checks of bodies and queries: types as a 422 in the words of the reference, values as a 400, texts of forms as numbers. */

import type { Context } from "hono";
import { z } from "zod";
import { shorten } from "../../generation/texts.ts";
import type { ValidationIssue } from "./answers.ts";
import { badRequest, unprocessable } from "./errors.ts";

/** What an integer's schema says of anything else: without it, zod says that it wants a number. */
export const NOT_AN_INTEGER = "Input should be a valid integer";

/** What a schema of one or several integers says of anything else. */
export const NOT_INTEGERS = "Input should be a valid integer or a list of valid integers";

/** Longest text of a request that is repeated in an answer. */
const MAX_ECHO = 200;

const EXPECTED: Readonly<Record<string, readonly [type: string, msg: string]>> = {
  string: ["string_type", "Input should be a valid string"],
  number: ["float_type", "Input should be a valid number"],
  boolean: ["bool_type", "Input should be a valid boolean"],
  object: ["dict_type", "Input should be a valid dictionary"],
  record: ["dict_type", "Input should be a valid dictionary"],
  array: ["list_type", "Input should be a valid list"],
};

/** Checks the types of a body or a query. @throws {ApiError} 422 with every mistake found */
export function validate<T extends z.ZodType>(
  schema: T,
  body: unknown,
  place: "body" | "query" = "body",
): z.output<T> {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const [first] = result.error.issues;
  const isNamed = first?.code === "unrecognized_keys";
  const got = first && !isNamed ? quote(valueAt(body, pathOf(first))) : undefined;
  throw unprocessable(result.error.issues.map((issue) => describe(issue, body, place)), got);
}

/** The query of a request, without `after=` and the like, which say nothing. */
export function queryOf(c: Context): Record<string, string> {
  return Object.fromEntries(Object.entries(c.req.query()).filter(([, value]) => value !== ""));
}

function describe(issue: z.core.$ZodIssue, body: unknown, place: string): ValidationIssue {
  const path = pathOf(issue);
  const input = valueAt(body, path);
  const [type, msg] = explain(issue, input);
  return { type, loc: [place, ...path], msg, input: echo(input) };
}

function explain(issue: z.core.$ZodIssue, input: unknown): readonly [string, string] {
  if (input === undefined) return ["missing", "Field required"];
  if (typeof input === "number" && !Number.isFinite(input)) {
    return ["finite_number", "Input should be a finite number"];
  }
  // The message of an integer's schema is that of its bounds, too.
  if (issue.message === NOT_AN_INTEGER && !Number.isInteger(input)) {
    return ["int_type", NOT_AN_INTEGER];
  }
  switch (issue.code) {
    case "invalid_type":
      return EXPECTED[issue.expected] ??
        ["type_error", `Input should be of type ${issue.expected}`];
    case "invalid_union":
      return [issue.message === NOT_INTEGERS ? "int_or_list" : "union_type", issue.message];
    case "invalid_value":
      return [
        "literal_error",
        `Input should be ${issue.values.map((one) => `'${String(one)}'`).join(" or ")}`,
      ];
    case "unrecognized_keys":
      return [
        "extra_forbidden",
        `Extra inputs are not permitted: ${issue.keys.map(quote).join(", ")}`,
      ];
    case "too_big":
      if (issue.origin === "string") {
        return ["string_too_long", `String should have at most ${issue.maximum} characters`];
      }
      return ["less_than_equal", `Input should be less than or equal to ${issue.maximum}`];
    case "too_small":
      return ["greater_than_equal", `Input should be greater than or equal to ${issue.minimum}`];
    default:
      return ["value_error", issue.message];
  }
}

function pathOf({ path }: z.core.$ZodIssue): (string | number)[] {
  return path.map((part) => typeof part === "number" ? part : String(part));
}

function valueAt(body: unknown, path: readonly (string | number)[]): unknown {
  let value = body;
  for (const part of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) {
      return undefined;
    }
    value = (value as Record<string | number, unknown>)[part];
  }
  return value;
}

/** What may go back into an answer: nothing long, and nothing deep, which would overflow the stack. */
function echo(input: unknown): unknown {
  if (typeof input === "string") {
    return input.length > MAX_ECHO ? `${input.slice(0, MAX_ECHO)}…` : input;
  }
  if (Array.isArray(input)) return `a list of ${input.length}`;
  if (typeof input === "object" && input !== null) return "a dictionary";
  return input ?? null;
}

/** A value as a sentence repeats it; nothing where there is none. */
function quote(input: unknown): string | undefined {
  if (typeof input === "string") return `'${shorten(input)}'`;
  return input === undefined ? undefined : String(echo(input));
}

/** Turns a check's `RangeError` into a 400 that names the field. */
export function asClientError<T>(param: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (error instanceof RangeError) throw badRequest(error.message, param);
    throw error;
  }
}

/** @throws {ApiError} 400 that lists the choices */
export function checkChoice(
  name: string,
  value: string | null | undefined,
  choices: readonly string[],
): void {
  if (value === undefined || value === null || value === "" || choices.includes(value)) return;
  const list = choices.map((choice) => `'${choice}'`).join(", ");
  throw badRequest(`${name} must be one of [${list}], got '${shorten(value)}'`, name);
}

/** @throws {ApiError} 400 for the first field in which the reference takes a path on the server */
export function refusePaths(
  fields: Readonly<Record<string, unknown>>,
  names: readonly string[],
): void {
  for (const name of names) {
    if (fields[name] === undefined || fields[name] === null) continue;
    throw badRequest(`Cannot use ${name}: clients may not name paths on the server`, name);
  }
}

type Node = z.core.JSONSchema._JSONSchema;

const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ...["true", "t", "1", "on", "yes", "y"].map((word) => [word, true] as const),
  ...["false", "f", "0", "off", "no", "n"].map((word) => [word, false] as const),
]);

const NUMBER = /^[+-]?(?:\d|\.\d)[\d.e+-]*$/i;

/** A schema's fields; it is a constant, and describing it takes as long as the rest of a request. */
const fieldsOf = new WeakMap<z.ZodObject, Readonly<Record<string, Node>>>();

export function fieldNodes(schema: z.ZodObject): Readonly<Record<string, Node>> {
  const known = fieldsOf.get(schema);
  if (known) return known;
  const { properties = {} } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  fieldsOf.set(schema, properties);
  return properties;
}

/** The JSON types that a field may have; none for one that the schema does not have. */
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
