/**
 * Owns the GPU: one worker per device, one generation at a time.
 *
 * @module
 */
import { resolveModel } from "../hub/resolve.ts";
import type { PipelineInfo } from "../models/mod.ts";
import { EngineWorker } from "./engine_worker.ts";
import { ProgressClock } from "./progress.ts";
import type { DeviceSettings, FromWorker } from "./protocol.ts";
import type {
  DeviceReport,
  Engine,
  EngineOptions,
  Frames,
  GenerateRequest,
  ModelInfo,
  Progress,
} from "./types.ts";

export type * from "./types.ts";

/** Most denoising steps that a request may ask for. */
const MAX_STEPS = 1000;

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

class WorkerEngine implements Engine {
  readonly #folder: string;
  readonly #options: EngineOptions;
  #worker: EngineWorker | undefined;
  #info: ModelInfo | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(folder: string, options: EngineOptions) {
    this.#folder = folder;
    this.#options = options;
  }

  get info(): ModelInfo {
    return this.#info!;
  }

  /** Starts a worker and loads the model; also after a worker was lost. */
  async start(): Promise<EngineWorker> {
    const worker = new EngineWorker();
    try {
      const message = {
        type: "open",
        folder: this.#folder,
        device: deviceSettings(this.#options),
      } as const;
      const answer = await worker.ask(message, (event) => {
        if (event.type === "loading") {
          this.#options.onLoadProgress?.({ stage: "weights", fraction: event.fraction });
        }
      });
      const { info, maxPixels } = answer as Extract<FromWorker, { type: "opened" }>;
      this.#info = modelInfo(this.#options.modelPath, info, maxPixels);
    } catch (error) {
      worker.terminate();
      throw error;
    }
    this.#worker = worker;
    return worker;
  }

  generate(
    request: GenerateRequest,
    options: { signal?: AbortSignal; onProgress?: (progress: Progress) => void } = {},
  ): Promise<Frames> {
    const result = this.#last.then(() => this.#generate(request, options));
    this.#last = result.catch(() => {});
    return result;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#worker?.terminate(new DOMException("Cannot finish: the engine was closed", "AbortError"));
    this.#worker = undefined;
    await this.#last;
  }

  async #generate(
    request: GenerateRequest,
    { signal, onProgress }: { signal?: AbortSignal; onProgress?: (progress: Progress) => void },
  ): Promise<Frames> {
    if (this.#isClosed) throw new Error("Cannot generate: the engine is closed");
    signal?.throwIfAborted();
    const worker = this.#worker ?? await this.start();
    const { defaults } = this.info;
    const full = {
      ...request,
      negativePrompt: request.negativePrompt ?? defaults.negativePrompt,
      numFrames: request.numFrames ?? defaults.numFrames,
    };
    const cancel = new SharedArrayBuffer(4);
    const abort = () => Atomics.store(new Int32Array(cancel), 0, 1);
    signal?.addEventListener("abort", abort);
    const clock = new ProgressClock();
    try {
      const answer = await worker.ask({ type: "generate", request: full, cancel }, (event) => {
        if (event.type === "progress") onProgress?.(clock.update(event.progress));
      });
      const { frames, timings, peakBytes } = answer as Extract<FromWorker, { type: "generated" }>;
      const seconds = Object.entries(timings).map(([stage, ms]) => [stage, ms / 1000]);
      const { width, height } = request;
      return {
        width,
        height,
        frames,
        fps: defaults.fps,
        timings: Object.fromEntries(seconds),
        peakBytes,
      };
    } catch (error) {
      if (worker.isBroken) {
        worker.terminate();
        this.#worker = undefined;
      }
      throw error;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }
}

function modelInfo(modelPath: string, info: PipelineInfo, maxPixels: number): ModelInfo {
  return {
    modelPath,
    pipelineName: info.className.replace(/Pipeline$/, ""),
    pipelineClass: info.className,
    taskType: info.defaultTask,
    supportedTaskTypes: info.supportedTasks.filter((task) => task !== "I2V"),
    ditPrecision: info.precisions.transformer,
    vaePrecision: info.precisions.vae,
    textEncoderPrecision: info.precisions.textEncoder,
    defaults: info.defaults,
    sizeMultiple: info.sizeMultiple,
    maxPixels,
    maxSteps: MAX_STEPS,
  };
}

function deviceSettings(
  { maxVramBytes, powerPreference, forceSoftware }: Partial<EngineOptions>,
): DeviceSettings {
  return {
    ...(maxVramBytes === undefined ? {} : { maxVramBytes }),
    ...(powerPreference === undefined ? {} : { powerPreference }),
    ...(forceSoftware === undefined ? {} : { forceSoftware }),
  };
}
