/** How a model and its device are opened. */

import type { BackendChoice } from "../runtime/device/backends/backend.ts";
import type { ModelLoras } from "./model_loras.ts";
import type { ModelParts } from "../models/mod.ts";
import type { DeviceSettings } from "./protocol.ts";
import type { PreparedRequest } from "./types.ts";

export type { ModelParts };

/** A component that can leave the device after its work. */
export type OffloadableComponent = "textEncoder" | "vae";

/** Which GPU is used, and how much of its memory. */
export interface DeviceOptions {
  /** Device memory that may be taken, in bytes; as much as there is by default. */
  maxVramBytes?: number;
  /** Components whose weights leave the device after their work, even where there is room; the next one waits for them. */
  offload?: readonly OffloadableComponent[];
  /** Keep host copies of weights that leave the device, so that they are not read from the file again. */
  pinCpuMemory?: boolean;
  /** Unload the model when nothing was asked of it for so long; the next request loads it again. */
  keepAliveMs?: number;
  /** Which adapter to ask for where the machine has several. */
  powerPreference?: "high-performance" | "low-power";
  /** Use the software adapter even where there is a GPU. */
  forceSoftware?: boolean;
  /**
   * How kernels are chosen: by rule (`off`), by what an earlier tuning run measured on this adapter (`cached`, the
   * default), or so and with a tuning run of up to 20 s first where a GPU was not measured yet (`auto`).
   */
  tuning?: "off" | "cached" | "auto";
  /** Deno's own WebGPU, Dawn where its package is installed, or the faster of the two; Deno's by default. */
  gpuBackend?: BackendChoice;
  /** Several GPUs make every request together; one by default. */
  parallel?: ParallelOptions;
}

/** What several GPUs of this machine share of every request. */
export interface ParallelOptions {
  /** Two GPUs, each with the passes of one prompt: nearly twice as fast where a request is guided. */
  guidance?: boolean;
  /**
   * So many GPUs share the tokens of every pass, and in attention the heads. What they compute goes through the
   * computer's memory, so it pays where a step takes long.
   */
  ulysses?: number;
  /** Likewise, but in attention they share the queries; both together multiply. */
  ring?: number;
  /** So many GPUs have some of the transformer's layers each, for models that no single one of them holds; no faster. */
  layers?: number;
}

/** How `loadModel()` loads. */
export interface LoadModelOptions extends DeviceOptions {
  /** What does not come from the model's own folder or file. */
  parts?: ModelParts;
  /** Most bytes of LoRAs kept in memory, those in use aside; 2 GiB by default. */
  loraCacheBytes?: number;
  /**
   * Called while the model is fetched from the hub (stage `download`), kernels are tuned (`tuning`) and compiled
   * (`kernels`, `done` of `total`), and the weights come in (`weights`); `fraction` is 0 to 1.
   */
  onLoadProgress?: (
    progress: { stage: string; fraction: number; done?: number; total?: number },
  ) => void;
  /** The request whose kernels are compiled while the weights come in; those of no request by default. */
  prepared?: PreparedRequest;
  /** Called with lines for a log, such as that kernels are tuned. */
  onNote?: (line: string) => void;
  /** Gives up loading. */
  signal?: AbortSignal;
}

/** How one of several cards is opened. */
export type CardAddress = Pick<DeviceSettings, "environment" | "powerPreference" | "sharers">;

/** How to open an engine. */
export interface EngineOptions extends LoadModelOptions {
  /** A model folder in the diffusers layout, a file with its transformer, a hub id, or `org/name:file`. */
  modelPath: string;
  /** Whether kernels are measured first, as in {@linkcode DeviceOptions}; `off` by default. */
  tuning?: "off" | "cached" | "auto";
  /** Files of LoRAs by names that may be given in place of their paths. */
  namedLoras?: Readonly<Record<string, string>>;
  /** Look at the model alone, and load it with the first request. */
  isLazy?: boolean;
  /** Which card, where the machine has several; the first one by default. */
  card?: CardAddress;
  /** Which cards, where several make every request together; the first ones by default. */
  groupCards?: readonly CardAddress[];
  /** LoRAs that another engine of this model has read. */
  sharedLoras?: ModelLoras;
}
