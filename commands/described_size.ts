import type { Recipe } from "../mod.ts";

/** A size in words, such as `1024x1024 (drawn at 96x96)`. */
export function describeSize(
  { width, height, drawnAt }: Pick<Recipe, "width" | "height" | "drawnAt">,
): string {
  const drawn = drawnAt ? ` (drawn at ${drawnAt.width}x${drawnAt.height})` : "";
  return `${width}x${height}${drawn}`;
}
