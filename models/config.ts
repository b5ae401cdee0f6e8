import type { z } from "zod";
import { excerpt } from "../hub/json_file.ts";

export function hiddenSize(
  { num_attention_heads, attention_head_dim }: {
    readonly num_attention_heads: number;
    readonly attention_head_dim: number;
  },
): number {
  return num_attention_heads * attention_head_dim;
}

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

export function checkRotaryAxes(
  { axes_dims_rope, attention_head_dim }: {
    readonly axes_dims_rope: readonly number[];
    readonly attention_head_dim: number;
  },
  context: z.RefinementCtx,
): void {
  if (axes_dims_rope.reduce((sum, dim) => sum + dim, 0) === attention_head_dim) return;
  refuse(context, "axes_dims_rope", `its sum must be attention_head_dim = ${attention_head_dim}`);
}

export function checkOutChannels(
  { in_channels, out_channels }: {
    readonly in_channels: number;
    readonly out_channels?: number | null | undefined;
  },
  context: z.RefinementCtx,
): void {
  if ((out_channels ?? in_channels) === in_channels) return;
  refuse(context, "out_channels", `it must be in_channels = ${in_channels}`);
}

/** Whether attention takes heads of so many elements: whole words, and results that fit the registers. */
export function headFits(headDim: number): boolean {
  return headDim % 4 === 0 && headDim <= 128;
}

export function refuse(context: z.RefinementCtx, key: string, message: string): void {
  context.addIssue({ code: "custom", path: [key], message });
}
