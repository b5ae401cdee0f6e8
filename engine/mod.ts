/** Owns the GPU: one worker per device, one generation at a time. */
import { resolve } from "../platform/mod.ts";
import { NO_PART, PART_COMPONENTS, type PartName } from "../hub/model_index.ts";
import { automaticParts, isAutomatic } from "../hub/cached_parts.ts";
import { findCacheFolder } from "../hub/cache.ts";
import { obtainModel, obtainPart } from "../hub/obtain_model.ts";
import { findNamed, obtainNamed } from "../hub/obtain_named.ts";
import type { PullOptions } from "../hub/pull.ts";
import type { CardEngine } from "./cards/card.ts";
import { chooseCards } from "./cards/choose_cards.ts";
import { EngineWorker } from "./engine_worker.ts";
import type { Answer, FromWorker, Message, ToWorker } from "./protocol.ts";
import { deviceSettings, memorySettings, tuningFolder, tuningSettings } from "./worker_settings.ts";
import type { PlanRequest } from "../models/mod.ts";
import type { EngineOptions, ModelParts } from "./options.ts";
import type { DeviceReport, ModelPlan, TuningReport } from "./reports.ts";
import type { ModelLoras } from "./model_loras.ts";
import { startEngine, WorkerEngine } from "./worker_engine.ts";
import { groupSize, WorkerGroup } from "./worker_group.ts";

export type * from "./options.ts";
export type * from "./reports.ts";
export type * from "./types.ts";
export { type CardPlan, chooseCards, usableAdapters } from "./cards/choose_cards.ts";
export { direct3DAdvice, isDirect3D, vulkanAdvice } from "./driver_advice.ts";
export { listVulkanAdapters, type VulkanAdapter } from "./cards/vulkan_adapters.ts";

export interface LocalEngine extends CardEngine {
  /** LoRAs that were read, for further engines of this model. */
  readonly loras: ModelLoras;
}

/** Opens a model on this machine's GPU; what a hub id names and the cache lacks is fetched first. */
export async function openEngine(options: EngineOptions): Promise<LocalEngine> {
  const { signal } = options;
  const { path, parts } = await obtain(options);
  signal?.throwIfAborted();
  return await startEngine(
    new WorkerEngine(path, { ...options, parts }, () => workerFor(options)),
    options,
  );
}

/**
 * What a request would take on this machine's GPU, without uploading anything; what a hub id names and the cache lacks
 * is fetched first.
 *
 * @throws {RangeError} when the model cannot make such a size
 */
export async function planModel(options: EngineOptions, size: PlanRequest): Promise<ModelPlan> {
  const { path, parts } = await obtain(options);
  const device = deviceSettings(options);
  const memory = memorySettings(options);
  const message = { type: "plan", model: path, parts, device, memory, size } as const;
  const answer = await askOnce(message, undefined, workerFor(options)) as Answer<"planned">;
  const { adapter, size: planned, report, handoverSeconds } = answer;
  const plan = { adapter, ...planned, memory: report };
  if (handoverSeconds === undefined) return plan;
  const { parallel = {} } = options;
  const gpus = groupSize(parallel);
  // N GPUs take S / N + X for a step of S on one, so that they are faster from S = X · N / (N - 1) on.
  const paysFromSeconds = handoverSeconds * gpus / (gpus - 1);
  const isForSpeed = (parallel.layers ?? 1) === 1;
  const handover = { gpus, stepSeconds: handoverSeconds, ...(isForSpeed && { paysFromSeconds }) };
  return { ...plan, handover };
}

/** A worker, or several that act as one. */
function workerFor(options: EngineOptions): EngineWorker {
  const { parallel = {}, forceSoftware } = options;
  const count = groupSize(parallel);
  if (count === 1) return new EngineWorker();
  const machine = { isSoftware: forceSoftware };
  const { groupCards = chooseCards({ count }, machine).map(({ address }) => address) } = options;
  return new WorkerGroup(parallel, groupCards);
}

/** Said before a model is chosen for an adapter that computes on the CPU. */
export const SOFTWARE_NOTE =
  "No graphics card is in use: models but the bundled one take minutes to hours on the CPU";

/** Paths of a model and of parts that lie elsewhere, fetched where they are missing. */
async function obtain(options: EngineOptions): Promise<{ path: string; parts: ModelParts }> {
  const { onLoadProgress, onNote, signal } = options;
  const pull: PullOptions = {
    ...(signal && { signal }),
    onProgress: ({ doneBytes, totalBytes }) =>
      onLoadProgress?.({ stage: "download", fraction: doneBytes / Math.max(1, totalBytes) }),
  };
  const noteOf = (id: string) => () => onNote?.(`Fetching ${id} from the hub`);
  const named = await findNamed(options.modelPath);
  const own = named && "own" in named ? named.own : undefined;
  const modelPath = own?.model ?? options.modelPath;
  const parts: ModelParts = { ...own?.parts, ...options.parts };
  const { predictionType, rescaleBetasZeroSnr, steersWhenAsked } = parts;
  const found: ModelParts = {
    ...(predictionType && { predictionType }),
    ...(rescaleBetasZeroSnr && { rescaleBetasZeroSnr }),
    ...(steersWhenAsked && { steersWhenAsked }),
  };
  const given = (Object.keys(PART_COMPONENTS) as PartName[])
    .filter((part) => parts[part] !== undefined);
  let path: string;
  if (named && "entry" in named) {
    const measure = async (wantedBytes: number) => {
      if (options.maxVramBytes !== undefined) return options.maxVramBytes;
      const { bytes, isSoftware } = await measureAdapter(options, wantedBytes);
      if (isSoftware) onNote?.(SOFTWARE_NOTE);
      return bytes;
    };
    const obtained = await obtainNamed(named, {
      ...{ ...pull, given, measure },
      ...(onNote && { onNote }),
    });
    path = obtained.path;
    Object.assign(found, obtained.parts);
  } else path = await obtainModel(modelPath, { ...pull, given }, noteOf(modelPath));
  const entry = named && "entry" in named ? named.entry : undefined;
  const cache = findCacheFolder();
  if (cache !== undefined) Object.assign(found, await automaticParts(path, entry, cache));
  for (const part of Object.keys(PART_COMPONENTS) as PartName[]) {
    const id = parts[part];
    if (id === NO_PART && part === "textEncoder3") found[part] = id;
    else if (id === NO_PART && isAutomatic(part)) delete found[part];
    else if (id !== undefined) found[part] = await obtainPart(id, part, pull, noteOf(id));
  }
  if (parts.embeddings !== undefined) found.embeddings = resolve(parts.embeddings);
  return { path, parts: found };
}

type AdapterOptions = Pick<EngineOptions, "powerPreference" | "forceSoftware" | "gpuBackend">;

/** Bytes of `wantedBytes` that this machine's adapter can give, and whether it is the CPU, asked in a worker of its own. */
export async function measureAdapter(
  options: AdapterOptions,
  wantedBytes: number,
): Promise<{ bytes: number; isSoftware: boolean }> {
  const answer = await askOnce({ type: "measure", device: deviceSettings(options), wantedBytes });
  const { bytes, isSoftware } = answer as Answer<"measured">;
  return { bytes, isSoftware };
}

export async function measureDevice(options: AdapterOptions, wantedBytes: number): Promise<number> {
  return (await measureAdapter(options, wantedBytes)).bytes;
}

/** @param onCheck told of each check of the self-test before it begins, with the share of those that are done */
export async function inspectDevice(
  options: AdapterOptions & Pick<EngineOptions, "tuning"> & { dumpFolder?: string } = {},
  onCheck?: (check: Answer<"checking">) => void,
): Promise<DeviceReport> {
  const { dumpFolder } = options;
  const answer = await askOnce({
    type: "inspect",
    device: deviceSettings(options),
    ...tuningSettings(options),
    ...(dumpFolder !== undefined && { dumpFolder }),
  }, (event) => {
    if (event.type === "checking") onCheck?.(event);
  });
  return (answer as Answer<"inspected">).report;
}

/** Measures which kernels are the fastest on this machine's adapter and keeps that for every later start. */
export async function tuneDevice(
  options: AdapterOptions & { budgetMs?: number },
  onEvent: (event: Answer<"note"> | Answer<"tuning">) => void,
): Promise<TuningReport> {
  const { budgetMs } = options;
  const folder = tuningFolder();
  if (folder === undefined) {
    throw new Error(
      "Cannot keep what is measured: there is no cache folder; give one in DENOISE_CACHE",
    );
  }
  const device = deviceSettings(options);
  const message: Message<"tune"> = {
    type: "tune",
    device,
    folder,
    ...(budgetMs !== undefined && { budgetMs }),
  };
  const answer = await askOnce(message, (event) => {
    if (event.type === "note" || event.type === "tuning") onEvent(event);
  });
  return (answer as Answer<"tuned">).report;
}

async function askOnce(
  message: ToWorker,
  onEvent?: (event: FromWorker) => void,
  worker = new EngineWorker(),
): Promise<FromWorker> {
  try {
    return await worker.ask(message, onEvent);
  } finally {
    await worker.close();
  }
}
