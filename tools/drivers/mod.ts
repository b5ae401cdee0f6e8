/** Drivers and WebGPU implementations that tests run on beside this machine's, each fetched once. */
import { NoAdapterError } from "../../runtime/errors.ts";
import { openDevice } from "../../runtime/device/open_device.ts";
import { DENO } from "../root.ts";
import { fetchDawn } from "./dawn.ts";
import { denoWithMesa } from "./mesa.ts";
import { swiftShader } from "./swiftshader.ts";

/** What starts Deno on a driver. */
export interface DriverStart {
  /** The program to start. */
  readonly deno: string;
  readonly env: Readonly<Record<string, string>>;
  /** Which tests of the ops it can run, as `--filter` takes it; all when left out. */
  readonly filter?: string;
}

/**
 * What SwiftShader compiles in seconds. Kernels with twelve bindings and convolutions in tiles take it half an hour and
 * 18 GB.
 */
const FILTER =
  "/^\\w+( \\((registers|rows|row|group|cpu|gpu|int8|shared\\w*|sliced\\w*)\\))? equals its reference$/";

/** How to start each driver; undefined where it cannot be fetched. */
export const DRIVERS: Readonly<Record<string, () => Promise<DriverStart | undefined>>> = {
  mesa: async () => {
    const deno = await denoWithMesa(DENO);
    return deno === undefined ? undefined : { deno, env: { DENOISE_DENO: deno } };
  },
  swiftshader: async () => {
    const manifest = await swiftShader();
    if (manifest === undefined) return undefined;
    const env = { VK_DRIVER_FILES: manifest, DENO_WEBGPU_BACKEND: "vulkan" };
    return { deno: DENO, env, filter: FILTER };
  },
  dawn: async () => {
    await fetchDawn();
    const deno = await hasDawnAdapter() ? DENO : await denoWithMesa(DENO);
    if (deno === undefined) return undefined;
    return { deno, env: { DENOISE_GPU_BACKEND: "dawn", DENOISE_DENO: deno } };
  },
};

/** Whether Dawn finds a driver on this machine as it is. */
async function hasDawnAdapter(): Promise<boolean> {
  try {
    (await openDevice({ backend: "dawn" })).destroy();
    return true;
  } catch (error) {
    if (error instanceof NoAdapterError) return false;
    throw error;
  }
}
