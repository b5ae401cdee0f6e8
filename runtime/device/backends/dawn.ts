/** Dawn, the WebGPU of Chromium, as a native addon: waits without Deno's 10 ms, faster uploads, matrix units. */
import { dirname, env, join, OS } from "../../../platform/mod.ts";
import { copyFileSync, existsSync, linkSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import process from "node:process";
import { NoAdapterError } from "../../errors.ts";
import { findDawn, HERE } from "./dawn_package.ts";

interface DawnAddon {
  create(flags: readonly string[]): GPU;
}

/** Checks of bounds stay, which cost software adapters up to a half: an index that is off would reach foreign memory. */
const FLAGS = [
  // Subgroup matrices are not in the standard yet.
  "enable-dawn-features=allow_unsafe_apis",
  // Else timestamps are rounded to a tenth of a millisecond.
  "disable-dawn-features=timestamp_quantization",
];

/** Asked for first where it is not Dawn's own first choice: only through Vulkan has it matrix units. */
const VULKAN = "backend=vulkan";

/** The instance of this thread, whose polling is calmed once. */
let instance: GPU | undefined;

export function dawnGpu(): GPU {
  return instance ??= load();
}

function load(): GPU {
  const path = findDawn(HERE);
  if (OS === "windows") {
    bringVulkan(dirname(path));
    bringRuntime(dirname(path));
  }
  try {
    const addon = createRequire(import.meta.url)(path) as DawnAddon;
    calmPolling();
    return createGpu((flags) => addon.create([...FLAGS, ...flags]), OS);
  } catch (error) {
    throw new NoAdapterError(
      `Cannot use Dawn: ${path} does not start on this machine (${(error as Error).message}); ` +
        `use --gpu-backend deno`,
    );
  }
}

/** Dawn looks for the loader of Vulkan beside its addon, and not where Windows has it. */
function bringVulkan(folder: string): void {
  const name = "vulkan-1.dll";
  try {
    copyFileSync(join(env("SystemRoot") ?? "C:\\Windows", "System32", name), join(folder, name));
  } catch {
    // There is none, or it lies there and is in use; Dawn has Direct3D besides.
  }
}

/**
 * On Windows the addon calls functions of a file named node.exe, and the first one of that name counts: Node's own on PATH,
 * or a copy of Deno, in which nothing has started. A hard link is the program that runs, to Windows too.
 */
export function bringRuntime(folder: string, program: string = process.execPath): void {
  const path = join(folder, "node.exe");
  const identity = (file: string) => {
    const { dev, ino } = statSync(file, { bigint: true });
    return `${dev}:${ino}`;
  };
  try {
    if (existsSync(path)) {
      if (identity(path) === identity(program)) return;
      rmSync(path);
    }
    linkSync(program, path);
  } catch (error) {
    throw new NoAdapterError(
      `Cannot use Dawn: ${path} cannot be made a hard link to ${program}, which the addon needs ` +
        `(${
          (error as Error).message
        }); have both on one drive, by DENO_DIR or DENOISE_DAWN, or use --gpu-backend deno`,
    );
  }
}

/** Dawn's entry point; on Windows (`os` is `OS`) through Vulkan where it has an adapter, else Direct3D. */
export function createGpu(create: (flags: readonly string[]) => GPU, os: string): GPU {
  if (os !== "windows") return create([]);
  const vulkan = create([VULKAN]);
  let other: GPU | undefined;
  const requestAdapter = async (options?: GPURequestAdapterOptions) => {
    const adapter = await vulkan.requestAdapter(options).catch(() => null);
    if (adapter) return adapter;
    other ??= create([]);
    return await other.requestAdapter(options);
  };
  return { requestAdapter } as GPU;
}

/** How long a wait asks without a pause, in milliseconds. */
const EAGER_MS = 1;
/** Polls further apart than this belong to different waits, in milliseconds. */
const GAP_MS = 20;

/**
 * While anything is awaited, the addon asks the driver at every `setImmediate`, which keeps one core busy for as long
 * as the GPU works. A software adapter then loses that core: with two cores, kernels took twice their time. So after
 * the first millisecond of a wait its polls come a millisecond apart.
 */
function calmPolling(): void {
  const immediately = globalThis.setImmediate;
  let begun = -Infinity;
  let last = -Infinity;
  const calm = (poll: (...args: unknown[]) => void, ...args: unknown[]): unknown => {
    const now = performance.now();
    if (now - last > GAP_MS) begun = now;
    last = now;
    return now - begun < EAGER_MS ? immediately(poll, ...args) : setTimeout(poll, 1, ...args);
  };
  globalThis.setImmediate = calm as typeof setImmediate;
}
