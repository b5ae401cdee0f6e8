/** Which WebGPU implementation `auto` stands for on this machine: measured once, and kept beside what tuning runs found. */
import { join } from "node:path";
import { type Device, openDevice } from "../runtime/mod.ts";
import { defaultBackend, type GpuBackend } from "../runtime/device/backends/backend.ts";
import { DAWN_VERSION, findDawn } from "../runtime/device/backends/dawn_package.ts";
import type { DeviceSettings } from "./protocol.ts";

/** What is kept. */
interface KeptChoice {
  /** Versions, and which adapter was asked for. */
  readonly key: string;
  /** The adapter that the choice was measured on, as the implementation names it. */
  readonly adapter: string;
  readonly backend: GpuBackend;
}

/**
 * Opens a device; for `auto` on the implementation that was the faster one when both were measured. They are measured
 * again for other versions, another adapter, or when the one that won does not open any more. Where Dawn is not
 * installed, nothing is measured and nothing kept.
 *
 * @throws {NoAdapterError} when there is no adapter
 */
export async function openChosenDevice(
  settings: DeviceSettings,
  folder: string,
  note: (line: string) => void,
): Promise<Device> {
  if ((settings.backend ?? defaultBackend()) !== "auto") return await openDevice(settings);
  if (!hasDawn()) return await openDevice({ ...settings, backend: "deno" });
  const { powerPreference, forceFallbackAdapter, environment } = settings;
  const key = JSON.stringify([
    Deno.version.deno,
    DAWN_VERSION,
    powerPreference ?? "",
    forceFallbackAdapter ?? false,
    ...(environment ? [environment.variables] : []),
  ]);
  const path = join(folder, `backend${environment ? `-${hash(key)}` : ""}.json`);
  const kept = await readChoice(path, key);
  if (kept) {
    const device = await openDevice({ ...settings, backend: kept.backend }).catch(() => undefined);
    if (device?.adapter.name === kept.adapter) return device;
    device?.destroy();
  }
  const device = await openDevice({ ...settings, backend: "auto" });
  const { name, backend } = device.adapter;
  note(
    `WebGPU of ${backend === "dawn" ? "Dawn" : "Deno"} is the faster one here, kept in ${path}`,
  );
  try {
    await Deno.mkdir(folder, { recursive: true });
    await Deno.writeTextFile(path, JSON.stringify({ key, adapter: name, backend }));
  } catch (error) {
    note(`Cannot keep which WebGPU is the faster one: ${(error as Error).message}`);
  }
  return device;
}

/** Whether Dawn is installed on this machine. */
export function hasDawn(): boolean {
  try {
    findDawn();
    return true;
  } catch {
    return false;
  }
}

/** Whatever is wrong with the file, there just is no choice. */
async function readChoice(path: string, key: string): Promise<KeptChoice | undefined> {
  try {
    const kept = JSON.parse(await Deno.readTextFile(path)) as Partial<KeptChoice>;
    const isKnown = kept.backend === "deno" || kept.backend === "dawn";
    return isKnown && kept.key === key ? kept as KeptChoice : undefined;
  } catch {
    return undefined;
  }
}

/** A short name for a text. */
function hash(text: string): string {
  let value = 0;
  for (const unit of text) value = (value * 31 + unit.codePointAt(0)!) >>> 0;
  return value.toString(36);
}
