/** Threads that compile kernels beside the one that owns the GPU, each on a device of its own. */
import { existsSync } from "node:fs";
import type { CompileHelpers, Device, KernelCode, Turns } from "../runtime/mod.ts";
import { waitForThread } from "./lifeline.ts";
import type { DeviceSettings } from "./protocol.ts";

/** To a thread that compiles. */
export interface CompileTask {
  readonly device: DeviceSettings;
  readonly kernels: readonly KernelCode[];
  /** Of {@linkcode Turns}. */
  readonly turns: SharedArrayBuffer;
}

/** From a thread that compiles: where Linux shows it, then that it is done, whatever became of it. */
export type CompileAnswer =
  | { readonly type: "thread"; readonly path: string | undefined }
  | { readonly type: "done" };

/** Drivers compile on one core each; more threads than these wait for memory. */
const MOST_THREADS = 4;
/** How often it is looked whether a thread is gone, in milliseconds. */
const POLL_MS = 100;

/** See the file comment. */
class CompileThreads implements CompileHelpers {
  readonly #device: DeviceSettings;

  /** @param device how the thread that owns the GPU has opened it */
  constructor(device: DeviceSettings) {
    this.#device = device;
  }

  /** @inheritdoc */
  async compile(kernels: readonly KernelCode[], turns: Turns): Promise<void> {
    const task = { device: this.#device, kernels, turns: turns.shared };
    const threads = Math.min(MOST_THREADS, Math.floor(navigator.hardwareConcurrency / 2));
    await Promise.all(Array.from({ length: threads }, () => run(task)));
  }
}

/** Threads for a device: none where WebGPU tells at once when a kernel is asked for, and compiles by itself. */
export function compileHelpers(
  { adapter }: Device,
  settings: DeviceSettings,
): CompileHelpers | undefined {
  return adapter.backend === "deno"
    ? new CompileThreads({ ...settings, backend: "deno" })
    : undefined;
}

/** Resolves when a new thread is done, or could not be started: that costs time only. */
function run(task: CompileTask): Promise<void> {
  return new Promise((resolve) => {
    const worker = new Worker(new URL("./compile_worker.ts", import.meta.url), {
      type: "module",
      name: "denoise-compile",
    });
    let over: () => void = () => {};
    const end = () => {
      over();
      resolve();
    };
    worker.onmessage = ({ data }: MessageEvent<CompileAnswer>) => {
      if (data.type === "done") return end();
      const { path } = data;
      if (path === undefined) return;
      const forget = waitForThread(path);
      over = () => void whenGone(path).then(forget);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      end();
    };
    worker.postMessage(task);
  });
}

async function whenGone(path: string): Promise<void> {
  while (existsSync(path)) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}
