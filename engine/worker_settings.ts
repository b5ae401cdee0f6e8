/** What an engine's options are to its worker: settings of the device, of its memory, of tuning. */
import { env, join } from "../platform/mod.ts";
import type { EngineOptions, OffloadableComponent } from "./options.ts";
import type { DeviceSettings, MemorySettings, TuningSettings } from "./protocol.ts";

export function deviceSettings(
  { maxVramBytes, powerPreference, forceSoftware, gpuBackend, card }: Partial<EngineOptions>,
): DeviceSettings {
  return {
    ...card,
    ...(maxVramBytes === undefined ? {} : { maxBytes: maxVramBytes }),
    ...(powerPreference === undefined ? {} : { powerPreference }),
    ...(forceSoftware === undefined ? {} : { forceFallbackAdapter: forceSoftware }),
    ...(gpuBackend === undefined ? {} : { backend: gpuBackend }),
  };
}

export function memorySettings(
  { offload = [], pinCpuMemory = false }: Partial<EngineOptions>,
): MemorySettings {
  return { offloaded: new Set(offload.flatMap((name) => OFFLOADED[name])), isPinned: pinCpuMemory };
}

const OFFLOADED: Readonly<Record<OffloadableComponent, readonly string[]>> = {
  textEncoder: ["text encoder", "text encoder 2"],
  vae: ["autoencoder"],
};

/** Where the worker finds what was measured; nothing when it shall not, or there is no cache folder. */
export function tuningSettings(
  { tuning = "off" }: Partial<EngineOptions>,
): { tuning?: TuningSettings } {
  const folder = tuningFolder();
  if (tuning === "off" || folder === undefined) return {};
  return { tuning: { folder: folder, mode: tuning } };
}

/**
 * Where the program keeps what it can make again: `DENOISE_CACHE`, else `denoise` in `XDG_CACHE_HOME`, else in
 * `.cache` of the home folder. The launcher keeps its own files in the same folder.
 *
 * @returns the folder, which need not exist; nothing when `DENOISE_CACHE` is `off`, or no variable says where
 */
export function cacheFolder(
  variable: (name: string) => string | undefined = env,
): string | undefined {
  // An empty variable counts as unset.
  const get = (name: string) => variable(name) || undefined;
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
