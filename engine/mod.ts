/**
 * Owns the GPU: one worker per device, one generation at a time.
 *
 * @module
 */
import { resolveModel } from "../hub/resolve.ts";
import { EngineWorker } from "./engine_worker.ts";
import type { FromWorker } from "./protocol.ts";
import type { DeviceReport, Engine, EngineOptions } from "./types.ts";
import { deviceSettings, WorkerEngine } from "./worker_engine.ts";

export type * from "./types.ts";

/**
 * Opens a model on this machine's GPU.
 *
 * @throws {Error} when the model is not there or damaged, no GPU is found, or the memory does not suffice
 */
export async function openEngine(options: EngineOptions): Promise<Engine> {
  const folder = await resolveModel(options.modelPath);
  const engine = new WorkerEngine(folder.path, options);
  await engine.start();
  return engine;
}

/** Looks at this machine's adapter in a worker of its own. */
export async function inspectDevice(
  options: Pick<EngineOptions, "powerPreference" | "forceSoftware"> = {},
): Promise<DeviceReport> {
  const worker = new EngineWorker();
  try {
    const answer = await worker.ask({ type: "inspect", device: deviceSettings(options) });
    return (answer as Extract<FromWorker, { type: "inspected" }>).report;
  } finally {
    worker.terminate();
  }
}
