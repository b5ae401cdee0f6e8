/** `POST /sdapi/v1/png-info`: what an image's file says of how it was made; images in base64. */

import { z } from "zod";
import { readRecipe, recipeFields } from "../../generation/read_recipe.ts";
import { readWebuiText } from "../../generation/recipe.ts";
import { readForeignText } from "../../media/isolated/images.ts";
import { badRequest } from "../contract/errors.ts";
import { validate } from "../contract/validate.ts";
import { explained } from "../inputs/references.ts";
import { nextTurn } from "../http/body.ts";

const schema = z.looseObject({ image: z.string() });

/** @throws {ApiError} 400 for what is no image; 429 when too many wait */
export async function pngInfo(
  body: unknown,
  signal: AbortSignal,
): Promise<Record<string, unknown>> {
  const bytes = await decodeBase64(validate(schema, body).image);
  if (!bytes) throw badRequest("Invalid encoded image", "image");
  const text = await explained({ field: "image" }, readForeignText(bytes, { signal }));
  const { parameters: info = "", ...items } = text;
  const recipe = readRecipe(text);
  return {
    info,
    items,
    parameters: parametersOf(info),
    // Not WebUI's: the same in the words of this server, whoever made the image.
    recipe: recipe ? recipeFields(recipe) : null,
    unused: recipe?.unused ?? [],
  };
}

/** The parts of WebUI's text, under its names. */
function parametersOf(info: string): Record<string, string> {
  if (info === "") return {};
  const { prompt, negativePrompt, settings } = readWebuiText(info);
  return { "Prompt": prompt, "Negative prompt": negativePrompt, ...settings };
}

/** Decodes a file with or without `data:image/png;base64,` before it; nothing when it is no base64. */
export async function decodeBase64(text: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  await nextTurn();
  try {
    return Uint8Array.fromBase64(text.replace(/^data:[^,]{0,200};base64,/i, ""));
  } catch {
    return undefined;
  }
}
