/** Parts of the catalogue that are on this machine. */

import { readdir } from "node:fs/promises";
import type { CatalogueModel } from "./catalogue.ts";
import { AUTOMATIC_PARTS, CATALOGUE_PARTS, type CataloguePart } from "./catalogue_parts.ts";
import { NotFoundError } from "../platform/mod.ts";
import { findSnapshot, parseHubFile } from "./cache.ts";
import { PART_COMPONENTS } from "./model_index.ts";
import { resolveModel } from "./resolve.ts";

/** The place of a part; nothing where the cache lacks it. */
export async function cachedPart(
  { source }: CataloguePart,
  cacheFolder: string | undefined,
): Promise<string | undefined> {
  const cache = { cacheFolder };
  try {
    return await (parseHubFile(source) ? resolveModel(source, cache) : findSnapshot(source, cache));
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

/** Places of parts by their kinds. */
type AutomaticParts = Partial<Record<typeof AUTOMATIC_PARTS[number], string>>;

/** Parts that a model takes of the cache where its folder has none; one of a family that is not known takes those for all. */
export async function automaticParts(
  folder: string,
  model: Pick<CatalogueModel, "family" | "name"> | undefined,
  cacheFolder: string | undefined,
): Promise<AutomaticParts> {
  const parts: AutomaticParts = {};
  const beside = await readdir(folder).catch(() => []);
  for (const row of CATALOGUE_PARTS) {
    const kind = AUTOMATIC_PARTS.find((kind) => kind === row.part);
    if (!kind || parts[kind] !== undefined || !isFor(row, model)) continue;
    if (beside.some((name) => name.replace(/\..*$/, "") === PART_COMPONENTS[kind])) continue;
    const path = await cachedPart(row, cacheFolder);
    if (path !== undefined) parts[kind] = path;
  }
  return parts;
}

export function isAutomatic(part: string): boolean {
  return AUTOMATIC_PARTS.some((kind) => kind === part);
}

function isFor(
  { families, notFor = [] }: CataloguePart,
  model: Pick<CatalogueModel, "family" | "name"> | undefined,
): boolean {
  if (families.length === 0) return true;
  return model !== undefined && families.includes(model.family) && !notFor.includes(model.name);
}
