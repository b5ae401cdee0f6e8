/** Opening a device with the kernels that suit it best, as far as this is known or can be found out. */
import {
  type Device,
  listChoices,
  openDevice,
  readTuning,
  tune,
  type Tuning,
  TUNING_BUDGET_MS,
  type TuningKey,
  tuningKey,
  type TuningRecord,
  writeAttempt,
  writeTuning,
} from "../runtime/mod.ts";
import type { DeviceSettings, TuningSettings } from "./protocol.ts";
import type { TuningReport } from "./types.ts";

/** What happens while a device is opened. */
export interface OpenEvents {
  /** A line for the log. */
  note(line: string): void;
  /** Finished share of a tuning run, and what it just measured. */
  tuning(fraction: number, line: string): void;
}

/** Runs that may end without a result, the process or the driver with them, before none is begun by itself. */
const MAX_ATTEMPTS = 2;

/**
 * Opens a device and applies what a tuning run measured on it. Where nothing is known yet and the mode is `auto`, a
 * GPU is tuned first. A software adapter is not: its rule was made by measuring the same software, and a run takes a
 * minute. Whatever fails about this costs speed only.
 *
 * @throws {NoAdapterError} when there is no adapter
 */
export async function openTunedDevice(
  settings: DeviceSettings,
  tuning: TuningSettings,
  events: OpenEvents,
): Promise<Device> {
  const device = await openDevice(settings);
  // What is measured holds for one WebGPU implementation; asked again, "auto" might take the other.
  const { backend } = device.adapter;
  const record = await tuningRecordOf(device, tuning.folder);
  if (record.state === "tuned") {
    device.applyTuning(record.tuning);
    return device;
  }
  if (record.state === "unreadable") {
    events.note(`Cannot use what was measured in ${record.path}: ${record.reason}`);
  }
  if (tuning.mode !== "auto" || device.target.schedule !== "gpu") return device;
  const attempts = record.state === "unfinished" ? record.attempts : 0;
  if (attempts >= MAX_ATTEMPTS) {
    events.note(
      `Kernels are chosen by rule: ${attempts} tuning runs did not end; "denoise tune" tries again`,
    );
    return device;
  }
  device.destroy();
  const seconds = (tuning.budgetMs ?? TUNING_BUDGET_MS.gpu) / 1000;
  events.note(
    `Choosing kernels for ${device.adapter.name}, once: up to ${seconds} s, kept in ${record.path}`,
  );
  const found = await tryTuning({ ...settings, backend }, tuning, events, attempts + 1);
  const tuned = await openDevice({ ...settings, backend });
  if (found) tuned.applyTuning(found);
  return tuned;
}

async function tryTuning(
  settings: DeviceSettings,
  options: TuningSettings,
  events: OpenEvents,
  attempts: number,
): Promise<Tuning | undefined> {
  try {
    const { tuning } = await runTuning(settings, options, events, attempts);
    const { classes: { measured, known }, seconds, excluded } = tuning;
    events.note(`Measured ${measured} of ${known} classes of problems in ${seconds.toFixed(1)} s`);
    for (const sentence of excluded) events.note(`Not used here: ${sentence}`);
    return tuning;
  } catch (error) {
    events.note(`Kernels are chosen by rule, because tuning failed: ${(error as Error).message}`);
    return undefined;
  }
}

/** What is known of a device. */
export async function tuningRecordOf(device: Device, folder: string): Promise<TuningRecord> {
  return await readTuning(folder, await keyOf(device));
}

/**
 * Tunes on a device of its own and keeps the result; that it cannot be kept is a note.
 *
 * @param attempts runs begun without an end, this one counted
 * @throws {NoAdapterError} when there is no adapter
 * @throws {DeviceLostError} when a kernel hangs the device
 */
export async function runTuning(
  settings: DeviceSettings,
  { folder, budgetMs }: Omit<TuningSettings, "mode">,
  events: OpenEvents,
  attempts = 1,
): Promise<TuningReport> {
  const device = await openDevice(settings);
  try {
    const key = await keyOf(device);
    const keep = async (write: () => Promise<string>) => {
      try {
        return await write();
      } catch (error) {
        events.note((error as Error).message);
        return undefined;
      }
    };
    const attempt = await keep(() => writeAttempt(folder, key, attempts));
    const tuning = await tune(device, {
      onProgress: events.tuning,
      ...(budgetMs === undefined ? {} : { budgetMs }),
    });
    const path = attempt && await keep(() => writeTuning(folder, key, tuning));
    device.applyTuning(tuning);
    return { adapter: device.adapter.name, tuning, kernels: listChoices(device.target), path };
  } finally {
    device.destroy();
  }
}

function keyOf(device: Device): Promise<TuningKey> {
  const driver = Deno.env.get("DENO_WEBGPU_BACKEND") ?? "default";
  return tuningKey(device, `${Deno.build.os} ${device.adapter.backend} ${driver}`);
}
