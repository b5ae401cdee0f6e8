import type { CompileHelpers, Device, KernelCode, Turns } from "../runtime/mod.ts";
import type { DeviceSettings, FromWorker } from "./protocol.ts";

/** Has the main thread compile kernels on threads of its own; see `CompileThreads`. */
export class AskedHelpers implements CompileHelpers {
  readonly #device: DeviceSettings;
  readonly #post: (message: FromWorker) => void;
  /** What to tell when the main thread is done, the oldest first. */
  readonly #waiting: (() => void)[] = [];

  /**
   * Asks for nothing yet.
   *
   * @param device how the thread that owns the GPU has opened it
   */
  constructor(device: DeviceSettings, post: (message: FromWorker) => void) {
    this.#device = device;
    this.#post = post;
  }

  /** @inheritdoc */
  compile(kernels: readonly KernelCode[], turns: Turns): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#post({ type: "compile", task: { device: this.#device, kernels, turns: turns.shared } });
    });
  }

  /** Ends the helpers, when the main thread says that its threads are done. */
  finish(): void {
    this.#waiting.shift()?.();
  }
}

/** Helpers for a device: none where WebGPU tells at once when a kernel is asked for, and compiles by itself. */
export function compileHelpers(
  { adapter }: Device,
  settings: DeviceSettings,
  post: (message: FromWorker) => void,
): AskedHelpers | undefined {
  return adapter.backend === "deno"
    ? new AskedHelpers({ ...settings, backend: "deno" }, post)
    : undefined;
}
