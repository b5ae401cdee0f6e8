import { readImageText } from "../../media/encode.ts";

/** A recipe as files have it; the parts that tests look at. */
interface WrittenRecipe {
  prompt: string;
  model: string;
  seed: number;
  size: string;
  drawn_at?: string;
  loras?: unknown[];
}

/** The recipe that an image's file carries, as denoise writes it. */
export function recipeIn(bytes: Uint8Array): WrittenRecipe {
  return JSON.parse(readImageText(bytes)["denoise"]!);
}
