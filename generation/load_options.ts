/**
 * How a model is loaded, and on which GPU.
 *
 * @module
 */

import type { ModelParts, OffloadableComponent } from "../engine/types.ts";

/** On which GPU, with how much of its memory. */
export interface DeviceOptions {
  /** Device memory that may be taken, in bytes; as much as there is when left out. */
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
  /** Deno's own WebGPU, Dawn where its package is installed, or the faster of the two; Deno's when left out. */
  gpuBackend?: "deno" | "dawn" | "auto";
}

/** How `loadModel()` loads. */
export interface LoadModelOptions extends DeviceOptions {
  /** What does not come from the model's own folder or file. */
  parts?: ModelParts;
  /** Most bytes of LoRAs kept in memory, those in use aside; 2 GiB when left out. */
  loraCacheBytes?: number;
  /**
   * Called while the model is fetched from the hub (stage `download`), kernels are tuned (`tuning`) and the weights
   * come in (`weights`); `fraction` is 0 to 1.
   */
  onLoadProgress?: (progress: { stage: string; fraction: number }) => void;
  /** Called with lines for a log, such as that kernels are tuned. */
  onNote?: (line: string) => void;
  /** Gives up loading. */
  signal?: AbortSignal;
}
