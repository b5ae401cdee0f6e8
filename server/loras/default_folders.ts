/** Where a server's clients may name LoRAs when it was not told. */

import { statSync } from "node:fs";
import { dirname } from "node:path";
import { hubCacheFolder } from "../../hub/cache.ts";

/**
 * The model's folder and the hub's cache, as far as there are any.
 *
 * @param modelPath a folder, a file or a hub id
 * @returns folders for `ServerSettings.loraFolders`
 */
export function defaultLoraFolders(modelPath: string): string[] {
  const folders: string[] = [];
  try {
    folders.push(statSync(modelPath).isDirectory() ? modelPath : dirname(modelPath));
  } catch {
    // A hub id: it is in the cache, or will be.
  }
  try {
    folders.push(hubCacheFolder());
  } catch {
    // Without a home there is no cache.
  }
  return folders;
}
