/** Tint, the WGSL front end of Dawn, on Dawn's null adapter: compiles shaders on any machine, with or without a driver. */
import { createRequire } from "node:module";
import { findDawn } from "../../runtime/device/backends/dawn_package.ts";

/** Features that kernels may enable. */
const FEATURES = [
  "shader-f16",
  "subgroups",
  "subgroup-size-control",
  "chromium-experimental-subgroup-matrix",
];

/** Why Tint cannot be used here; undefined where it can. */
export function whyNoTint(): string | undefined {
  try {
    findDawn();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Kept while the program runs: a device outlives its collected entry point only to crash. */
let gpu: GPU | undefined;

/** A device that compiles everything that kernels are written with. */
export async function openTint(): Promise<GPUDevice> {
  const { create } = createRequire(import.meta.url)(findDawn()) as {
    create(flags: readonly string[]): GPU;
  };
  gpu ??= create(["backend=null", "enable-dawn-features=allow_unsafe_apis"]);
  const lora = await gpu.requestAdapter();
  return await lora!.requestDevice({ requiredFeatures: FEATURES as GPUFeatureName[] });
}
