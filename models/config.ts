import type { z } from "zod";
import { excerpt } from "../hub/json_file.ts";

/** Checks a component's parsed `config.json` and fills in the reference's defaults. */
export function parseConfig<Schema extends z.ZodType>(
  schema: Schema,
  json: unknown,
  path: string,
): z.output<Schema> {
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const keys = issue?.path ?? [];
  const key = keys.join(".") || "the whole file";
  const reason = (issue?.message ?? "it does not fit").replace(
    /^[A-Z](?=[a-z])/,
    (c) => c.toLowerCase(),
    // What was received is shown as it stands in the file.
  ).replace(/, received .*$/, "");
  throw new SyntaxError(
    `Cannot use "${path}": ${key} is ${excerpt(valueAt(json, keys))}: ${reason}; ` +
      "fetch the file again, or use another model",
  );
}

function valueAt(json: unknown, keys: readonly PropertyKey[]): unknown {
  let value = json;
  for (const key of keys) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}
