import { join } from "node:path";

/**
 * Where the program keeps what it can make again: `DENOISE_CACHE`, else `denoise` in `XDG_CACHE_HOME`, else in
 * `.cache` of the home folder. The launcher keeps its own files in the same folder.
 *
 * @returns the folder, which need not exist; nothing when `DENOISE_CACHE` is `off`, or no variable says where
 */
export function cacheFolder(
  env: (name: string) => string | undefined = (name) => Deno.env.get(name),
): string | undefined {
  // An empty variable counts as unset.
  const get = (name: string) => env(name) || undefined;
  const own = get("DENOISE_CACHE");
  if (own !== undefined) return own === "off" ? undefined : own;
  const cache = get("XDG_CACHE_HOME");
  if (cache !== undefined) return join(cache, "denoise");
  const home = get("HOME") ?? get("USERPROFILE");
  return home === undefined ? undefined : join(home, ".cache", "denoise");
}

/** Where the results of tuning runs are kept; nothing when nothing is to be kept. */
export function tuningFolder(): string | undefined {
  const folder = cacheFolder();
  return folder === undefined ? undefined : join(folder, "tuning");
}
