/**
 * `denoise list` and `denoise rm`.
 *
 * @module
 */

import { type CachedModel, listCachedModels, removeCachedModel } from "../hub/cached_models.ts";
import { hubCacheFolder } from "../hub/cache.ts";
import { gigabytes } from "./pull.ts";

/**
 * Prints what the cache holds.
 *
 * @returns 0
 */
export async function runList(): Promise<number> {
  const folder = hubCacheFolder();
  const models = await listCachedModels(folder);
  console.log(models.length === 0 ? `Nothing is in ${folder}` : describeModels(models));
  return 0;
}

/**
 * Removes models from the cache.
 *
 * @param ids of repositories
 * @returns 0
 */
export async function runRemove(ids: readonly string[]): Promise<number> {
  for (const id of ids) {
    const { bytes } = await removeCachedModel(id, hubCacheFolder());
    console.log(`Removed ${id}: ${gigabytes(bytes)} are free again`);
  }
  return 0;
}

/**
 * A table of models.
 *
 * @param models in the cache
 * @returns one line for each
 */
function describeModels(models: readonly CachedModel[]): string {
  const rows = models.map(({ id, bytes, partialBytes, revisions, fetchedAt }) => [
    id,
    gigabytes(bytes),
    fetchedAt?.toISOString().slice(0, 10) ?? "",
    Object.entries(revisions).map(([name, commit]) => `${name} ${commit.slice(0, 8)}`).join(", ") ||
    "not complete",
    partialBytes > 0 ? `${gigabytes(partialBytes)} of unfinished files` : "",
  ]);
  const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  return rows
    .map((row) => row.map((cell, i) => cell.padEnd(widths[i]!)).join("  ").trimEnd())
    .join("\n");
}
