/** What the requests of a tab say, and what its models can do. */
import type { Context } from "hono";
import { readRecipe, recipeFields } from "../../generation/read_recipe.ts";
import { readImageText } from "../../media/encode.ts";
import { badRequest } from "../../server/contract/errors.ts";
import { type EDIT_SPELLINGS, withInputNames } from "../../server/contract/fields.ts";
import type { LoraItem } from "../../server/contract/generation_fields.ts";
import { type JobLora, readLoraItems } from "../../server/contract/lora_requests.ts";
import type { AppEnv } from "../../server/services.ts";
import type { TabUpload } from "./inputs.ts";

/** The texts and files of a form. */
export async function readForm(
  c: Context<AppEnv>,
  spellings: typeof EDIT_SPELLINGS,
): Promise<{ fields: Record<string, string | string[]>; uploads: TabUpload[] }> {
  const fields: Record<string, string | string[]> = {};
  const uploads: TabUpload[] = [];
  for (const [field, value] of await c.req.raw.formData()) {
    if (typeof value !== "string") uploads.push({ field, file: value });
    else fields[field] = field in fields ? [fields[field]!, value].flat() : value;
  }
  return { fields: withInputNames(fields, spellings), uploads };
}

/** Finds LoRAs by their names, where the model has some, and by addresses. */
export function findLoras(
  items: readonly LoraItem[],
  named: Readonly<Record<string, string>>,
): JobLora[] {
  return readLoraItems(items, "auto").map((lora) => {
    const path = lora.path ?? lora.nickname!;
    const file = named[path] ?? (URL.canParse(path) ? path : undefined);
    if (file !== undefined) return { ...lora, path, file };
    const known = Object.keys(named).join(", ");
    const names = known === "" ? "" : `, or a name of ${known}`;
    throw badRequest(`Cannot find LoRA ${path}: give its address${names}`, "loras");
  });
}

/** What an image's file says of how it was made. */
export async function readText(c: Context<AppEnv>): Promise<Response> {
  const { image } = await c.req.json() as { image: string };
  const recipe = readRecipe(
    readImageText(Uint8Array.fromBase64(image.replace(/^data:[^,]*,/, ""))),
  );
  return c.json({ recipe: recipe ? recipeFields(recipe) : null, unused: recipe?.unused ?? [] });
}
