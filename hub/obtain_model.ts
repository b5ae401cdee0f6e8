/**
 * The folder of a model, fetched first where this machine does not have it.
 *
 * @module
 */

import { isHubId } from "./cache.ts";
import { pullModel, type PullOptions } from "./pull.ts";
import { type ModelFolder, resolveModel } from "./resolve.ts";

/**
 * Finds the folder of a model; a hub id that is not in the cache, or not whole, is fetched.
 *
 * @param pathOrId the path of a folder, or `org/name`
 * @param options how a pull is watched and stopped, and from where
 * @param onPull called before one begins
 * @returns the folder
 * @throws {Error} as {@link resolveModel} and {@link pullModel} do
 */
export async function obtainModel(
  pathOrId: string,
  options: PullOptions = {},
  onPull?: () => void,
): Promise<ModelFolder> {
  const cache = options.settings && { cacheFolder: options.settings.cacheFolder };
  try {
    return await resolveModel(pathOrId, cache);
  } catch (error) {
    const isMissing = error instanceof Deno.errors.NotFound && isHubId(pathOrId);
    // A folder of that name is what is meant, whatever it lacks.
    if (!isMissing || await Deno.stat(pathOrId).then(() => true, () => false)) throw error;
  }
  onPull?.();
  await pullModel(pathOrId, options);
  return await resolveModel(pathOrId, cache);
}
