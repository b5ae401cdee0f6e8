/** What an engine's options are to its worker: settings of the device, of its memory, of tuning. */
import { tuningFolder } from "./cache_folder.ts";
import type { EngineOptions, OffloadableComponent } from "./options.ts";
import type { DeviceSettings, MemorySettings, TuningSettings } from "./protocol.ts";

/** How a worker opens its device. */
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

/** How the worker uses the device's memory. */
export function memorySettings(
  { offload = [], pinCpuMemory = false }: Partial<EngineOptions>,
): MemorySettings {
  return { offloaded: new Set(offload.flatMap((name) => OFFLOADED[name])), isPinned: pinCpuMemory };
}

/** How memory plans call the components. */
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
