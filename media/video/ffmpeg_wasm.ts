/**
 * FFmpeg in WebAssembly, in a worker of its own for each call: slower than a program, but always
 * there, and its memory is gone when the call ends.
 *
 * @module
 */

import { type Ffmpeg, type FfmpegCall, ffmpegError, type FfmpegSink } from "./ffmpeg.ts";

/** What the worker is told. */
export type WasmRequest =
  | { readonly kind: "input" | "write"; readonly bytes: Uint8Array }
  | { readonly kind: "run"; readonly args: readonly string[] };

/** What the worker answers a `run` with. */
export type WasmReply =
  | { readonly kind: "done"; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: "failed"; readonly said: string };

/** Where the worker keeps what is written to it, in its own file system. */
export const WASM_STDIN = "/stdin";
/** Where the worker finds the result. */
export const WASM_OUTPUT = "/output";

/** The build that comes with denoise. */
export class WasmFfmpeg implements Ffmpeg {
  /** For people: version and kind. */
  readonly description = "ffmpeg 5.1.4 in WebAssembly, bundled";

  /** See {@link Ffmpeg.encode}. */
  encode(call: FfmpegCall, output: string): FfmpegSink {
    const session = new WasmSession(call);
    return {
      write: (bytes) => session.write(bytes),
      finish: async () => await Deno.writeFile(output, await session.run()),
    };
  }

  /** See {@link Ffmpeg.decode}. */
  decode(call: FfmpegCall): ReadableStream<Uint8Array> {
    const session = new WasmSession(call);
    return new ReadableStream({
      async pull(controller) {
        controller.enqueue(await session.run());
        controller.close();
      },
      cancel: () => session.end(),
    });
  }
}

/** One worker, for one call. */
class WasmSession {
  readonly #call: FfmpegCall;
  readonly #worker: Worker;
  readonly #result = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
  readonly #abort = () => this.#result.reject(this.#call.signal?.reason);
  #inputs: Promise<void> | undefined;

  constructor(call: FfmpegCall) {
    call.signal?.throwIfAborted();
    this.#call = call;
    const url = new URL("./ffmpeg_wasm_worker.ts", import.meta.url);
    this.#worker = new Worker(url, { type: "module" });
    this.#worker.onmessage = ({ data }: MessageEvent<WasmReply>) =>
      data.kind === "done"
        ? this.#result.resolve(data.bytes)
        : this.#result.reject(ffmpegError(data.said));
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#result.reject(ffmpegError(event.message));
    };
    // It may fail before anyone waits for it.
    this.#result.promise.catch(() => {});
    call.signal?.addEventListener("abort", this.#abort);
  }

  async write(bytes: Uint8Array): Promise<void> {
    await this.#readInputs();
    this.#tell({ kind: "write", bytes });
  }

  async run(): Promise<Uint8Array<ArrayBuffer>> {
    try {
      await this.#readInputs();
      const args = this.#call.arguments({
        inputs: this.#call.inputs.map((_, i) => `/input${i}`),
        stdin: WASM_STDIN,
        output: WASM_OUTPUT,
      });
      this.#tell({ kind: "run", args });
      return await this.#result.promise;
    } finally {
      this.end();
    }
  }

  end(): void {
    this.#call.signal?.removeEventListener("abort", this.#abort);
    this.#worker.terminate();
  }

  #readInputs(): Promise<void> {
    return this.#inputs ??= (async () => {
      for (const path of this.#call.inputs) {
        this.#tell({ kind: "input", bytes: await Deno.readFile(path) });
      }
    })();
  }

  #tell(request: WasmRequest): void {
    this.#worker.postMessage(request);
  }
}
