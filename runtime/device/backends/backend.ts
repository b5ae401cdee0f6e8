import { env, OWN_GPU } from "../../../platform/mod.ts";
import type { GpuName } from "../../../platform/types.ts";
import { dawnGpu } from "./dawn.ts";

/** A WebGPU implementation: the runtime's own, or Dawn where its package is installed. */
export type GpuBackend = GpuName;

/** Which WebGPU implementation to take; `auto` measures both and takes the faster one. */
export type BackendChoice = GpuBackend | "auto";

const BACKEND_CHOICES: ReadonlySet<BackendChoice> = new Set([OWN_GPU, "dawn", "auto"]);

/** What `DENOISE_GPU_BACKEND` names, else Deno's own: so a whole test run, with its workers, goes through another backend. */
export function defaultBackend(): BackendChoice {
  const name = env("DENOISE_GPU_BACKEND") ?? OWN_GPU;
  const choice = [...BACKEND_CHOICES].find((known) => known === name);
  if (choice) return choice;
  throw new TypeError(
    `Cannot use DENOISE_GPU_BACKEND=${name}: it is one of ${[...BACKEND_CHOICES].join(", ")}`,
  );
}

export function gpuOf(backend: GpuBackend): GPU {
  return backend === "dawn" ? dawnGpu() : navigator.gpu;
}
