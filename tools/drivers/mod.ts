/** Drivers and WebGPU implementations that tests run on beside this machine's, each fetched once. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DAWN_VERSION, findDawn } from "../../runtime/device/backends/dawn_package.ts";
import { NoAdapterError } from "../../runtime/errors.ts";
import { openDevice } from "../../runtime/open_device.ts";
import { DENO } from "../root.ts";
import { driversFolder, unpackPackages, writeDriverManifest } from "./debian.ts";

/** What starts Deno on a driver. */
export interface DriverStart {
  /** The program to start. */
  readonly deno: string;
  readonly env: Readonly<Record<string, string>>;
  /** Which tests of the ops it can run, as `--filter` takes it; all by default. */
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
    const deno = await denoWithMesa();
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
    const deno = await hasDawnAdapter() ? DENO : await denoWithMesa();
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

/** Path of a script that starts Deno on Mesa's newest software driver, with the C library that the driver wants. */
async function denoWithMesa(): Promise<string | undefined> {
  const folder = join(driversFolder(), "mesa");
  const script = join(folder, "deno");
  if (existsSync(script)) return script;
  console.error(
    `Fetching Mesa's software driver from Debian unstable into ${folder}, once (66 MB)`,
  );
  const wanted = { folder, packages: ["mesa-vulkan-drivers"], suite: "sid", complete: true };
  const root = await unpackPackages(wanted);
  if (root === undefined) return undefined;
  const libraries = join(root, "usr", "lib", "x86_64-linux-gnu");
  const driver = join(folder, "driver.json");
  await writeDriverManifest(driver, join(libraries, "libvulkan_lvp.so"), "1.4.0");
  await Deno.writeTextFile(
    script,
    `#!/bin/sh\nexport VK_DRIVER_FILES='${driver}' DENO_WEBGPU_BACKEND=vulkan\n` +
      `exec '${libraries}/ld-linux-x86-64.so.2' --library-path '${libraries}' '${DENO}' "$@"\n`,
    { mode: 0o755 },
  );
  return script;
}

/** Path of the manifest of SwiftShader, the software driver that comes with Chromium. */
async function swiftShader(): Promise<string | undefined> {
  const folder = join(driversFolder(), "swiftshader");
  const manifest = join(folder, "driver.json");
  if (existsSync(manifest)) return manifest;
  console.error(`Fetching SwiftShader from Debian into ${folder}, once (31 MB)`);
  const wanted = { folder, packages: ["chromium-common"], complete: false };
  const root = await unpackPackages(wanted);
  if (root === undefined) return undefined;
  const library = join(root, "usr", "lib", "chromium", "libvk_swiftshader.so");
  await writeDriverManifest(manifest, library, "1.1.0");
  return manifest;
}

/** The path of Dawn's addon, fetched where it is not on this machine yet. */
export async function fetchDawn(): Promise<string> {
  try {
    return findDawn();
  } catch (error) {
    if (!(error instanceof NoAdapterError) || Deno.env.has("DENOISE_DAWN")) throw error;
    console.error(`Fetching Dawn ${DAWN_VERSION} from npm into Deno's cache, once`);
    await new Deno.Command(DENO, {
      args: ["cache", "--no-config", "--no-lock", `npm:webgpu@${DAWN_VERSION}`],
      stdin: "null",
    }).spawn().status;
    return findDawn();
  }
}
