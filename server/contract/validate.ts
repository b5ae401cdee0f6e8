/** Schema mistakes in the words of the reference: status 422 with a list of what is wrong. */

import type { Context } from "hono";
import type { z } from "zod";
import { shorten } from "../../generation/shorten.ts";
import type { ValidationIssue } from "./answers.ts";
import { unprocessable } from "./errors.ts";

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

/**
 * Checks the types of a body, or of a query.
 *
 * @param body a parsed JSON value, or the values of a query
 * @throws {ApiError} 422 with every mistake found
 */
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

/**
 * The query of a request, for {@link validate}.
 *
 * @returns its parameters; `after=` and the like are left out, for they say nothing
 */
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
