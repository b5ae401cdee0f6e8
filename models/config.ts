import type { z } from "zod";

/**
 * Checks a component's parsed `config.json` and fills in the reference's defaults.
 *
 * @param path of the file, for messages
 * @throws {SyntaxError} naming the first key that does not fit
 */
export function parseConfig<Schema extends z.ZodType>(
  schema: Schema,
  json: unknown,
  path: string,
): z.output<Schema> {
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const key = issue?.path.join(".") || "the whole file";
  throw new SyntaxError(`Cannot use "${path}": ${key}: ${issue?.message ?? "it does not fit"}`);
}
