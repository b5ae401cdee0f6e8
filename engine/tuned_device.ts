/** Opening a device with the kernels that suit it best, as far as this is known or can be found out. */
import { env, join, OS, readText, RUNTIME, writeText } from "../platform/mod.ts";
import {
  type AdapterKey,
  adapterKey,
  type Device,
  kernelSetVersion,
  listChoices,
  openDevice,
  readTuning,
  tune,
  type Tuning,
  TUNING_BUDGET_MS,
  type TuningRecord,
  writeTuning,
} from "../runtime/mod.ts";
import { defaultBackend, type GpuBackend } from "../runtime/device/backends/backend.ts";
import { DAWN_VERSION, findDawn } from "../runtime/device/backends/dawn_package.ts";
import { direct3DAdvice, isDirect3D } from "./driver_advice.ts";
import type { DeviceSettings, TuningSettings } from "./protocol.ts";
import type { TuningReport } from "./reports.ts";

export interface OpenEvents {
  note(line: string): void;
  /** Finished share of a tuning run, and what it just measured. */
  tuning(fraction: number, line: string): void;
}

/** Runs that may end without a result, the process or the driver with them, before none is begun by itself. */
const MAX_ATTEMPTS = 2;

/**
 * Opens a device and applies what tuning runs measured on it. Where not all is known yet and the mode is `auto`, a GPU
 * is tuned first, for as long as one run may take; the next start goes on with the rest. A software adapter is not: its
 * rule was made by measuring the same software, and a run takes a minute. Whatever fails about this costs speed only.
 */
export async function openTunedDevice(
  settings: DeviceSettings,
  tuning: TuningSettings,
  events: OpenEvents,
): Promise<Device> {
  const device = await openChosenDevice(settings, tuning.folder, (line) => events.note(line));
  if (isDirect3D({ ...device.target.features, backend: device.adapter.backend })) {
    events.note(direct3DAdvice(device.adapter.name));
    // A run would compile for an hour.
    tuning = { ...tuning, mode: "cached" };
  }
  const record = await tuningRecordOf(device, tuning.folder);
  const known = record.state === "tuned" ? record.tuning : undefined;
  if (known) device.applyTuning(known);
  if (record.state === "unreadable") {
    events.note(`Cannot use what was measured in ${record.path}: ${record.reason}`);
  }
  const isComplete = known && known.classes.measured >= known.classes.known;
  if (isComplete || tuning.mode !== "auto" || device.target.schedule !== "gpu") return device;
  const attempts = "attempts" in record ? record.attempts : 0;
  if (attempts >= MAX_ATTEMPTS) {
    events.note(
      `Kernels are chosen by ${known ? "what was measured, the rest by " : ""}rule: ` +
        `${attempts} tuning runs did not end; "denoise tune" tries again`,
    );
    return device;
  }
  device.destroy();
  // What is measured holds for one WebGPU implementation.
  const { backend } = device.adapter;
  const seconds = (tuning.budgetMs ?? TUNING_BUDGET_MS.gpu) / 1000;
  const done = known
    ? `${known.classes.measured} of ${known.classes.known} classes are measured, `
    : "";
  events.note(
    `Choosing kernels for ${device.adapter.name}: ${done}up to ${seconds} s, kept in ${record.path}`,
  );
  const earlier = { attempts, known };
  const found = await tryTuning({ ...settings, backend }, tuning, events, earlier) ?? known;
  const tuned = await openDevice({ ...settings, backend });
  if (found) tuned.applyTuning(found);
  return tuned;
}

interface Earlier {
  /** Runs begun without an end. */
  readonly attempts?: number;
  readonly known?: Tuning | undefined;
}

async function tryTuning(
  settings: DeviceSettings,
  options: TuningSettings,
  events: OpenEvents,
  earlier: Earlier,
): Promise<Tuning | undefined> {
  try {
    const { tuning } = await runTuning(settings, options, events, earlier);
    const { classes: { measured, known }, seconds, excluded } = tuning;
    const rest = measured < known ? "; the next start goes on" : "";
    events.note(
      `Measured ${measured} of ${known} classes of problems in ${seconds.toFixed(1)} s${rest}`,
    );
    for (const sentence of excluded) events.note(`Not used here: ${sentence}`);
    return tuning;
  } catch (error) {
    events.note(`Kernels are chosen by rule, because tuning failed: ${(error as Error).message}`);
    return undefined;
  }
}

export async function tuningRecordOf(device: Device, folder: string): Promise<TuningRecord> {
  return await readTuning(folder, await keyOf(device), () => kernelSetVersion(device.target));
}

/**
 * Tunes on a device of its own and keeps the result, race by race; that it cannot be kept is a note.
 *
 * @param earlier whose results stay; by default those of the last run, unless it measured everything
 */
export async function runTuning(
  settings: DeviceSettings,
  { folder, budgetMs }: Omit<TuningSettings, "mode">,
  events: OpenEvents,
  earlier?: Earlier,
): Promise<TuningReport> {
  using device = await openChosenDevice(settings, folder, (line) => events.note(line));
  const key = { ...await keyOf(device), kernels: await kernelSetVersion(device.target) };
  const { attempts = 0, known } = earlier ??
    { known: unfinished(await tuningRecordOf(device, folder)) };
  let canKeep = true;
  const keep = async (tuning: Tuning | undefined, attempts: number) => {
    try {
      return canKeep ? await writeTuning(folder, key, tuning, attempts) : undefined;
    } catch (error) {
      canKeep = false;
      events.note((error as Error).message);
      return undefined;
    }
  };
  await keep(known, attempts + 1);
  const tuning = await tune(device, {
    known,
    onProgress: events.tuning,
    onResult: async (tuning) => void await keep(tuning, attempts + 1),
    ...(budgetMs === undefined ? {} : { budgetMs }),
  });
  const path = await keep(tuning, 0);
  device.applyTuning(tuning);
  return { adapter: device.adapter.name, tuning, kernels: listChoices(device.target), path };
}

/** What was measured, if something is left to measure. */
function unfinished(record: TuningRecord): Tuning | undefined {
  if (record.state !== "tuned") return undefined;
  const { measured, known } = record.tuning.classes;
  return measured < known ? record.tuning : undefined;
}

function keyOf(device: Device): Promise<AdapterKey> {
  const driver = env("DENO_WEBGPU_BACKEND") ?? "default";
  return adapterKey(device, `${OS} ${device.adapter.backend} ${driver}`);
}

interface KeptChoice {
  /** Versions, and which adapter was asked for. */
  readonly key: string;
  readonly adapter: string;
  readonly backend: GpuBackend;
}

/**
 * Opens a device; for `auto` on the implementation that was the faster one when both were measured. They are measured
 * again for other versions, another adapter, or when the one that won does not open any more. Where Dawn is not
 * installed, nothing is measured and nothing kept.
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
    RUNTIME,
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
    await writeText(path, JSON.stringify({ key, adapter: name, backend }));
  } catch (error) {
    note(`Cannot keep which WebGPU is the faster one: ${(error as Error).message}`);
  }
  return device;
}

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
    const kept = JSON.parse(await readText(path)) as Partial<KeptChoice>;
    const isKnown = kept.backend === "deno" || kept.backend === "dawn";
    return isKnown && kept.key === key ? kept as KeptChoice : undefined;
  } catch {
    return undefined;
  }
}

function hash(text: string): string {
  let value = 0;
  for (const unit of text) value = (value * 31 + unit.codePointAt(0)!) >>> 0;
  return value.toString(36);
}
